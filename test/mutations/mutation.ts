/** A small, realistic fault in the source, and the suite that must notice it. */
export interface Mutation {
  /** What breaks, as a sentence: "A resume does not restore the retry budget". */
  readonly breaks: string;
  /** Path below the project's root. */
  readonly file: string;
  /** Text of one line that occurs once in the file. */
  readonly find: string;
  readonly replace: string;
  /** Test file, or a folder, that must fail. */
  readonly suite: string;
  /** The suite runs `dist`: build it first. @default false */
  readonly isBuilt?: boolean;
}
