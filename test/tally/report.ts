/** The content of `test-results/failed.json`. */
export interface Report {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly seconds: number;
  readonly failures: readonly Failure[];
}

/** A failed test, hook, worker or teardown. */
export interface Failure {
  /** Path of the test file; absent for failures outside of files. */
  readonly file?: string;
  /** Title of the test, name of the hook, or another place. */
  readonly name: string;
  readonly error: string;
  readonly durationMs?: number;
  /** Load average of the machine at the time of the failure. */
  readonly load: number;
  /** Command that repeats the failed file. */
  readonly repeat?: string;
}

/** `failed: <file> > <test>: <error>`, as the last lines of a run have it. */
export const toLine = ({ file, name, error }: Failure, label: "failed" | "flaky"): string =>
  `${label}: ${file === undefined ? "" : `${file} > `}${name}: ${error}`;
