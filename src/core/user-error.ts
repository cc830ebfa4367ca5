export interface UserErrorOptions extends ErrorOptions {
  readonly hint?: string | undefined;
}

/** An error that a person can correct. The command line prints its message and hint, without a stack. */
export class UserError extends Error {
  override readonly name: string = "UserError";
  /** What to do about it, where that is known. */
  readonly hint: string | undefined;

  constructor(message: string, options: UserErrorOptions = {}) {
    super(message, options);
    this.hint = options.hint;
  }
}
