export interface UserErrorOptions extends ErrorOptions {
  readonly hint?: string | undefined;
}

/** An error that a user can correct. The command line prints its message and hint, without a stack. */
export class UserError extends Error {
  override readonly name: string = "UserError";
  /** The way to correct the error, if known. */
  readonly hint: string | undefined;

  constructor(message: string, options: UserErrorOptions = {}) {
    super(message, options);
    this.hint = options.hint;
  }
}
