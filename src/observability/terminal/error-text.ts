import { toVisible } from "../../core/terminal/visible.ts";

type Cause = Pick<ErrorText, "headline" | "calls">;
/** The error of a record, in the parts that a terminal shows. */
export interface ErrorText {
  /** The first line of the message. */
  readonly headline: string;
  /** The other lines of the message. */
  readonly more: readonly string[];
  readonly calls: readonly string[];
  readonly causes: readonly Cause[];
}

/** Splits the text of an error, as a record has it. Every line is safe for a terminal. */
export function toErrorText(text: string): ErrorText {
  const [own = "", ...causes] = text.split("\ncaused by: ");
  const { message, calls } = split(own);
  const [headline = "", ...more] = message;
  return { headline, more: more.slice(0, maxLines), calls, causes: causes.map((cause) => toCause(split(cause))) };
}
const toCause = ({ message: [headline = ""], calls }: Section): Cause => ({ headline, calls });
/** Max message lines below the first. */
const maxLines = 10;

interface Section {
  readonly message: readonly string[];
  readonly calls: readonly string[];
}
function split(text: string): Section {
  const lines = text.split("\n").map((line) => toVisible(line, { allowed: "\t" }));
  const found = lines.findIndex((line) => /^\s+at /.test(line));
  const end = found < 0 ? lines.length : found;
  const [first = "", ...rest] = lines.slice(0, end);
  return {
    // The name of a general class says nothing.
    message: [first.replace(/^(Error|ServeError|AgentError): /, ""), ...rest.filter((line) => line.trim() !== "")],
    calls: lines.slice(end).map((line) => line.trim()),
  };
}
