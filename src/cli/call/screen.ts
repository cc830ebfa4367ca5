import { toVisible } from "../../core/visible.ts";
import { colors } from "../colors.ts";
import type { ServerEvent } from "./events.ts";

/**
 * What the command shows: results and answers on stdout, everything else on stderr. With `--json` stdout has one event a
 * line, and stderr only what went wrong.
 */
export class Screen {
  readonly isJson: boolean;
  /** Whether questions can be asked: they are written to stdout, and answered on stdin. */
  readonly canAsk: boolean;
  /** The stream whose last line is not ended. */
  #open: NodeJS.WriteStream | undefined;

  constructor(isJson: boolean) {
    this.isJson = isJson;
    this.canAsk = !isJson && process.stdin.isTTY === true && process.stdout.isTTY === true;
    process.stdout.on("error", () => process.exit(1)); // its reader has left: nobody is there to be told
  }

  /** A line of its own, on stderr. */
  line(text: string): void {
    if (this.isJson) return;
    // A file gets an answer as it is, not broken where something else was said.
    if (this.#open?.isTTY || this.#open === process.stderr) this.endLine();
    process.stderr.write(`${text}\n`);
  }

  /** A line on stderr that scripts get, too. */
  note(text: string): void {
    if (this.isJson) process.stderr.write(`${text}\n`);
    else this.line(text);
  }

  /** A part of a longer text, as it comes. */
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

  /** What a workflow has made: JSON, on stdout. */
  async result(value: unknown): Promise<void> {
    if (this.isJson) return;
    this.endLine();
    const json = JSON.stringify(value ?? null, null, 2);
    await write(process.stdout, `${process.stdout.isTTY ? toVisible(json, { allowed: "\n" }) : json}\n`);
  }

  /** An event as it came, for scripts. */
  async event(event: ServerEvent): Promise<void> {
    if (this.isJson) await write(process.stdout, `${JSON.stringify(event)}\n`);
  }
}

/** Waits for a reader that is slower than the server. */
async function write(stream: NodeJS.WriteStream, text: string): Promise<void> {
  if (!stream.write(text)) await new Promise((resolve) => stream.once("drain", resolve));
}

/** A value of the server's in one line. */
export function toShort(value: unknown, most = 300): string {
  return toVisible(typeof value === "string" ? value : (JSON.stringify(value) ?? ""), { most });
}

export const toSeconds = (ms: number): string =>
  ms < 1_000 ? `${Math.round(ms)} ms` : ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`;

export const dim = (text: string): string => colors.dim(text);
