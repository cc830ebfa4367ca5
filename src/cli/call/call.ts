import { describe, nearest } from "../../core/schemas/explain.ts";
import { isId } from "../../core/id.ts";
import { findInfinity, tryParseJson } from "../../core/json.ts";
import { toProblem } from "../../core/schema.ts";
import { UserError } from "../../core/user-error.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import { UsageError } from "../usage.ts";
import { maxBytes, readUpTo } from "./events.ts";
import type { Client } from "./client.ts";
import { RefusalError } from "./failure.ts";
import type { Screen } from "./screen.ts";
import type { CallFlags } from "./target.ts";

/** One run of the `call` command: its arguments, the client and the output. */
export interface Call {
  /** The id of the workflow or the agent. */
  readonly id: string;
  readonly input: string | undefined;
  readonly flags: CallFlags;
  readonly client: Client;
  readonly screen: Screen;
}

/** Returns the argument, or the text of stdin if the argument is `-`. */
export async function readInput(argument: string | undefined): Promise<string | undefined> {
  if (argument !== "-") return argument;
  const text = await readUpTo(maxBytes, process.stdin as AsyncIterable<Buffer>);
  if (text === undefined) throw new UsageError("stdin: expected at most 16 MiB");
  return text;
}

export function parseJson(text: string, from: string): unknown {
  const value = tryParseJson(text);
  // JSON.stringify would send null in its place.
  const infinite = value === undefined ? undefined : findInfinity(value, text);
  if (infinite)
    throw new UsageError(
      `${from}: ${toVisible(toProblem(infinite.join("."), "the number is out of range (±1.8e308)"))}`,
    );
  if (value !== undefined) return value;
  throw new UsageError(`${from}: expected JSON, found ${toVisible(describe(text))}`, {
    hint: `in a shell, put JSON in single quotes: '{"amount":500}'`,
  });
}

/** The error of a command that Ctrl+C interrupted. */
export class InterruptError extends UserError {
  constructor() {
    super("Interrupted");
  }
}

/**
 * Runs a function with a signal that Ctrl+C aborts, with an `InterruptError`. Pressing Ctrl+C again ends the process.
 */
export async function interruptible<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const stop = (): void => controller.abort(new InterruptError());
  process.once("SIGINT", stop);
  try {
    return await run(controller.signal);
  } finally {
    process.off("SIGINT", stop);
  }
}

/** Adds a hint with the ids that the server knows, if the id is not one of them. */
export async function withKnownIds(
  refusal: unknown,
  client: Client,
  nouns: "workflows" | "agents" | "schedules",
  id: string,
): Promise<unknown> {
  if (!(refusal instanceof RefusalError) || refusal.status !== 404) return refusal;
  const listed = await client.get(`/${nouns}`).catch(() => undefined);
  if (!Array.isArray(listed)) return refusal;
  const ids = listed.map((one: { id?: unknown } | null) => one?.id).filter(isId);
  if (ids.includes(id)) return refusal; // the id is known, so the execution is missing
  const near = nearest(id, ids);
  const known = ids.slice(0, 10).join(", ") + (ids.length > 10 ? ` and ${ids.length - 10} more` : "");
  if (near.length > 0) return new RefusalError(404, refusal.message, `did you mean ${near.slice(0, 3).join(" or ")}?`);
  return new RefusalError(
    404,
    refusal.message,
    ids.length > 0 ? `available ${nouns}: ${known}` : `this server has no ${nouns}`,
  );
}
