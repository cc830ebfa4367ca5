import { ConfigError } from "../config/error.ts";

/** The command line is wrong. */
export class UsageError extends ConfigError {}
