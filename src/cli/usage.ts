import { UserError } from "../core/user-error.ts";

/** The error of an invalid command line. */
export class UsageError extends UserError {}
