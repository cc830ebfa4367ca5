/** Where in a file something is wrong. Lines and columns begin at 1, as in editors. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column?: number | undefined;
}

/** A mistake in a user's own files. Its message is all that a person needs: one line per mistake, file and place first. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  /** What to do about it, where that is known. */
  readonly hint: string | undefined;
  readonly place: Place | undefined;

  constructor(message: string, options: ErrorOptions & { hint?: string | undefined; place?: Place | undefined } = {}) {
    super(message, options);
    this.hint = options.hint;
    this.place = options.place;
  }
}
