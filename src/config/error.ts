/** A mistake in a user's own files. Its message is all that a person needs: one line per mistake, file and place first. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  /** What to do about it, where that is known. */
  readonly hint: string | undefined;

  constructor(message: string, options: ErrorOptions & { hint?: string | undefined } = {}) {
    super(message, options);
    this.hint = options.hint;
  }
}
