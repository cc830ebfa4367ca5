/** A small, realistic fault in the source, and the suites that must notice it. */
export interface Mutation {
  /** What breaks, as a sentence: "A resume does not restore the retry budget". */
  readonly breaks: string;
  /** Path below the project's root. */
  readonly file: string;
  /** Text of one line that occurs once in the file. */
  readonly find: string;
  readonly replace: string;
  readonly suite: Suite;
  /** The fault is in a rule that both backends use: a suite of each must fail as well. */
  readonly backends?: { readonly embedded: Suite; readonly restate: Suite };
  /** The suite runs `dist`: build it first. @default false */
  readonly isBuilt?: boolean;
}

/**
 * Test file, or a folder, that must fail. `file > words` runs only tests whose titles have the words:
 * "test/workflows/races.test.ts > accepts one of two".
 */
export type Suite = string;

/** The path of a suite, and the words. */
export function splitSuite(suite: Suite): { readonly path: string; readonly words: string | undefined } {
  const [path, words] = suite.split(" > ");
  return { path: path!, words };
}
