import { UserError } from "../../core/user-error.ts";

/** The server has said no. */
export class RefusalError extends UserError {
  readonly status: number;

  constructor(status: number, message: string, hint?: string) {
    super(message, { hint });
    this.status = status;
  }
}

/** There is no connection, or no longer. What was asked for may go on at the server, unless nobody has heard it. */
export class ConnectionError extends UserError {
  readonly heard: boolean;

  constructor(message: string, { hint, heard }: { hint?: string; heard: boolean }) {
    super(message, { hint });
    this.heard = heard;
  }
}

/** Somebody pressed Ctrl+C. */
export class InterruptError extends UserError {
  constructor() {
    super("Interrupted");
  }
}
