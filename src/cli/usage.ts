import { UserError } from "../core/user-error.ts";

/** The command line is wrong. */
export class UsageError extends UserError {}
