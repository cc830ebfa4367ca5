import { toVisible, toVisibleJson } from "../../core/terminal/visible.ts";
import { colors } from "../colors.ts";
import type { ServerEvent } from "./events.ts";

/**
 * The output of the command: results and answers on stdout, everything else on stderr. With `--json`, stdout has one
 * event per line, and stderr only errors and notes.
 */
export class Screen {
  readonly isJson: boolean;
  /** True if stdin and stdout are terminals, so that questions can be asked. */
  readonly canAsk: boolean;
  /** The stream whose last line has no line break yet. */
  #open: NodeJS.WriteStream | undefined;

  constructor(isJson: boolean) {
    this.isJson = isJson;
    this.canAsk = !isJson && process.stdin.isTTY === true && process.stdout.isTTY === true;
    process.stdout.on("error", () => process.exit(1)); // the reader of stdout has exited
  }

  /** Writes a line to stderr. */
  line(text: string): void {
    if (this.isJson) return;
    // If stdout is a file, a line on stderr must not add a line break to the answer in it.
    if (this.#open?.isTTY || this.#open === process.stderr) this.endLine();
    process.stderr.write(`${text}\n`);
  }

  /** Writes a line to stderr, even with `--json`. */
  printNote(text: string): void {
    if (this.isJson) process.stderr.write(`${text}\n`);
    else this.line(text);
  }

  /** Writes a part of a longer text. */
  async text(
    stream: NodeJS.WriteStream,
    part: string,
    style: (text: string) => string = (text) => text,
  ): Promise<void> {
    if (this.isJson || part === "") return;
    if (this.#open && this.#open !== stream && this.#open.isTTY) this.endLine();
    const shown = stream.isTTY ? toVisible(part.replaceAll("\r\n", "\n"), { allowed: "\n\t" }) : part;
    this.#open = shown.endsWith("\n") ? undefined : stream;
    await write(stream, style(shown));
  }

  endLine(): void {
    this.#open?.write("\n");
    this.#open = undefined;
  }

  /** Writes the result of a workflow to stdout, as JSON. */
  async result(value: unknown): Promise<void> {
    if (this.isJson) return;
    this.endLine();
    await write(process.stdout, `${toVisibleJson(JSON.stringify(value ?? null, null, 2))}\n`);
  }

  /** Writes an event to stdout, with `--json`. */
  async event(event: ServerEvent): Promise<void> {
    if (this.isJson) await write(process.stdout, `${toVisibleJson(JSON.stringify(event))}\n`);
  }
}

/** Writes a text, and waits for `drain` if the reader is slower than the server. */
async function write(stream: NodeJS.WriteStream, text: string): Promise<void> {
  if (!stream.write(text)) await new Promise((resolve) => stream.once("drain", resolve));
}

/** Returns a value of the server in one line. */
export function toShort(value: unknown, max = 300): string {
  return toVisible(typeof value === "string" ? value : (JSON.stringify(value) ?? ""), { max });
}

/** Returns an id from the server in one line. Executions of schedules have the longest ids. */
export const toShortId = (id: unknown): string => toShort(id, 160);

export const toSeconds = (ms: number): string =>
  ms < 1_000 ? `${Math.round(ms)} ms` : ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`;

export const dim = (text: string): string => colors.dim(text);
