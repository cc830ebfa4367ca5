import { UserError, type UserErrorOptions } from "../core/user-error.ts";

/** A location in a file. Lines and columns begin at 1, as in editors. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column?: number | undefined;
}

/** A mistake in the files or settings of a project. The message has one line per mistake, with file and place first. */
export class ConfigError extends UserError {
  override readonly name = "ConfigError";
  readonly place: Place | undefined;

  constructor(message: string, options: UserErrorOptions & { place?: Place | undefined } = {}) {
    super(message, options);
    this.place = options.place;
  }
}
