/**
 * The log of requests and executions, one record for each. It is part of the log of the server, at level `info` in `dev`
 * and `debug` in `start`.
 */
export interface Activity {
  /** False if its records have no reader. Then they need not be made. */
  isOn(): boolean;
  /**
   * Logs a record with the ids of the current scope, at `debug` if it is `quiet`. A record below `info` is passed to the
   * logger of the host, and not kept: it would push others out.
   */
  log(message: string, data: Record<string, unknown>, options?: { quiet?: boolean | undefined }): void;
}
