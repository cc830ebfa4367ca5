import { createHmac } from "node:crypto";
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { ServeError, toErrorMessage } from "../../core/error.ts";
import { newSecretId } from "../../core/id.ts";
import { scopeRecords, type AttemptRecords } from "../../engine/contract/records.ts";
import type { UsageRow } from "../../engine/contract/usage.ts";
import { isNoResult } from "../tools/no-result.ts";
import { revive, stopName, toModelName, toolPrefix, toRecord, toToolName } from "./record-text.ts";
import type { ToolSignature, TurnStart } from "./record-text.ts";

export interface RecordLimits {
  /** The largest record, as JSON. */
  readonly stepValueBytes: number;
  /** Max bytes of all records in a turn. */
  readonly executionBytes: number;
}

/** A turn that continues after a crash. */
export interface DurableTurn {
  /** The turn id. A repetition of the turn has the same one. */
  readonly id: string;
  readonly records: AttemptRecords;
  /** True if a repetition is given the same input: then it is not recorded. @default false */
  readonly isInputKnown?: boolean;
  /** True if the call may end before a tool has, whose execution is suspended: another turn continues it. @default false */
  readonly maySuspend?: boolean;
}
/** The answer whether a tool call needs an approval, or the error of asking. */
export type ApprovalNeed = { readonly isNeeded: boolean } | { readonly error: string };
/** The end of a tool call. Models are shown the name of an error as well, unless it is a `ServeError`: then it is empty. */
export type ToolEnd = { readonly output: unknown } | { readonly error: string; readonly name: string };
type ToolRecord = ToolEnd & { readonly executionId?: string | undefined };

/**
 * The model calls and tool calls of one turn, recorded as they end.
 *
 * C1. After a crash, a turn is repeated from its beginning by the loop of the AI SDK. Model call k returns record k, a tool
 *     call its own record: nothing recorded runs again.
 * C2. A model call is recorded when its stream has finished. Its tools start only when the record is durable.
 * C3. What a turn begins with is recorded together with its first call: until then a repetition may begin in another way. If
 *     a tool was approved, that is the call of the tool. A first model call without a beginning does not count: a crash came
 *     between the two writes.
 * C4. A failure of the model is not recorded: the turn ends with it, or the SDK asks again.
 * C5. A record is of no use if its tool no longer exists, or has another output schema: the turn ends with an error.
 * C6. A stop is a record as well, durable before it is answered. A turn that is repeated after it returns its records, and
 *     ends at the first call without one: nothing new is asked, and no tool runs.
 */
export class RecordedCalls {
  /** The id of the turn, the same after a crash. */
  readonly turnId: string;
  readonly maySuspend: boolean;
  readonly #records: AttemptRecords;
  readonly #limits: RecordLimits;
  readonly #onFailure: (error: unknown) => void;
  readonly #isInputKnown: boolean;
  /** The beginning of a turn that is repeated. */
  readonly found: TurnStart | undefined;
  /** The beginning of this run. */
  #start: TurnStart | undefined;
  #isStartStored: boolean;
  #bytes = 0;
  /** The number of completed model calls. */
  #modelCalls = 0;
  /** The number of model calls that had ended when a tool ran last. */
  #lastRun = 0;
  /** The model calls after which tool calls were made, by their id. Some providers use an id again. */
  #toolCalls: Map<string, number> | undefined;

  /** The ends of tool calls in this run, by call id. The promises never reject. */
  ends: Map<string, Promise<ToolEnd>> | undefined;
  /** The executions that tool calls have started, by the id of the call. The last call with an id counts. */
  readonly executions: Map<string, string> = new Map();

  /** `onFailure` ends the turn: a result cannot be recorded. */
  constructor(
    { id, records, isInputKnown = false, maySuspend = false }: DurableTurn,
    limits: RecordLimits,
    onFailure: (error: unknown) => void,
  ) {
    this.turnId = id;
    this.maySuspend = maySuspend;
    this.#records = records;
    this.#limits = limits;
    this.#onFailure = onFailure;
    this.#isInputKnown = isInputKnown;
    const start = records.found.get("start");
    this.#isStartStored = start !== undefined;
    if (start !== undefined) this.found = JSON.parse(start) as TurnStart;
    for (const text of records.found.values()) this.#bytes += Buffer.byteLength(text);
  }

  begin(start: Omit<TurnStart, "seed">): void {
    const seed = this.found ? this.found.seed : newSecretId();
    this.#start = { ...start, seed, ...(this.#isInputKnown && { input: undefined }) };
  }

  /** True if the model has answered in this turn. */
  get hasModelCall(): boolean {
    return this.#modelCalls > 0;
  }
  /** The approval id of a tool call: 128 bits that cannot be guessed, the same when the turn is repeated. */
  toApprovalId(toolCallId: string): string | undefined {
    const { seed } = this.#start ?? {};
    if (seed === undefined) return undefined;
    const name = this.#toToolName(toolCallId);
    return createHmac("sha256", seed).update(name).digest("hex").slice(0, 32);
  }
  /** Returns the recorded answer whether a tool call needs an approval, or asks and records it. */
  async needApproval(toolCallId: string, ask: () => Promise<ApprovalNeed>): Promise<ApprovalNeed> {
    const name = `approval of ${this.#toToolName(toolCallId)}`;
    const found = this.#records.found.get(name);
    if (found !== undefined) return JSON.parse(found) as ApprovalNeed;
    const need = await ask();
    await this.#write(name, need, "The need of an approval").catch((error: unknown) => this.#fail(error));
    return need;
  }

  /** Records that the turn was stopped. */
  saveStop(): Promise<void> {
    return this.#records.write(stopName, "true");
  }
  /** True if the turn was stopped before it was repeated. */
  get wasStopped(): boolean {
    return this.#records.found.has(stopName);
  }
  /** Ends a turn that was stopped, at a call without a record. */
  endStopped(): void {
    if (this.wasStopped) throw stopped();
  }

  /** The parts of the next model call, if it is recorded. */
  takeModelCall(): LanguageModelV4StreamPart[] | undefined {
    const text = this.found && this.#records.found.get(toModelName(this.#modelCalls));
    if (text === undefined) return undefined;
    this.#modelCalls++;
    const parts = (JSON.parse(text) as LanguageModelV4StreamPart[]).map(revive);
    for (const part of parts) {
      if (part.type !== "tool-call" || part.providerExecuted) continue;
      const { before, now } = this.#toolSignatures(part.toolName);
      // A name that was unknown from the beginning is an error of the model.
      if (before && !now) this.#fail(toChanged(`tool ${part.toolName} no longer exists`));
    }
    return parts;
  }

  /** Records the parts of a completed model call, and counts its usage. */
  async saveModelCall(parts: readonly LanguageModelV4StreamPart[], usage: UsageRow): Promise<void> {
    const name = toModelName(this.#modelCalls++);
    try {
      await Promise.all([this.#saveStart(), this.#write(name, parts, "The answer of the model", usage)]);
    } catch (error) {
      this.#fail(error);
    }
  }

  async #saveStart(): Promise<void> {
    if (this.#isStartStored) return;
    this.#isStartStored = true;
    await this.#write("start", this.#start, "The beginning of the turn");
  }

  /** True if a tool call was recorded before the turn was repeated. */
  isToolFound(toolCallId: string): boolean {
    return this.#records.found.has(this.#toToolName(toolCallId));
  }

  /** True if a model call and its tool calls were recorded before the turn was repeated. */
  isStepFound(step: number): boolean {
    return this.found !== undefined && this.#records.found.has(toModelName(step)) && this.#lastRun !== step + 1;
  }

  /** The key of a tool call, for services that must not act twice. */
  toIdempotencyKey(toolCallId: string): string {
    return `${this.turnId}/${this.#toToolName(toolCallId).slice(toolPrefix.length)}`;
  }

  /** The records for the turn of an agent that a tool asks. */
  openInner(toolCallId: string): DurableTurn {
    const scope = `inside ${JSON.stringify(this.#toToolName(toolCallId))} `;
    const records = scopeRecords(this.#records, scope);
    return { id: this.toIdempotencyKey(toolCallId), records, isInputKnown: true };
  }

  /** Returns the recorded result of a tool call, or runs the tool and records its result: the last one of many. */
  runTool(tool: string, toolCallId: string, run: () => unknown, signal: AbortSignal): unknown {
    const name = this.#toToolName(toolCallId);
    this.executions.delete(toolCallId);
    const text = this.#records.found.get(name);
    if (text !== undefined) return this.#replayTool(tool, toolCallId, JSON.parse(text) as ToolRecord);
    if (this.wasStopped) throw new Error("Stopped");
    this.#lastRun = this.#modelCalls;
    const ended = Promise.withResolvers<ToolEnd>();
    (this.ends ??= new Map()).set(toolCallId, ended.promise);
    const save = async (end: ToolEnd): Promise<void> => {
      ended.resolve(end);
      // A tool that was aborted runs again when the turn is repeated.
      const executionId = this.executions.get(toolCallId);
      if (!signal.aborted || "output" in end) await this.#saveTool(name, tool, { ...end, executionId });
    };
    const fail = async (error: unknown): Promise<never> => {
      await save({ error: toErrorMessage(error), name: toName(error) });
      throw error;
    };
    let result: unknown;
    try {
      signal.throwIfAborted(); // the turn may end while the call is recorded
      result = run();
    } catch (error) {
      return fail(error);
    }
    if (isMany(result)) return saveLast(result, save, fail);
    return Promise.resolve(result).then(async (output) => {
      // It has no result yet: a repeated turn looks again.
      if (isNoResult(output)) ended.resolve({ error: "Stopped", name: "Error" });
      else await save({ output });
      return output;
    }, fail);
  }

  async #replayTool(tool: string, toolCallId: string, end: ToolRecord): Promise<unknown> {
    if (end.executionId !== undefined) this.executions.set(toolCallId, end.executionId);
    const { before, now } = this.#toolSignatures(tool);
    // An approved tool runs before the first model call. A crash may have hit between its record and the beginning.
    if (this.found && before?.[1] !== now?.[1]) this.#fail(toChanged(`tool ${tool} has another outputSchema`));
    if ("error" in end) throw Object.assign(new Error(end.error), { name: end.name });
    return end.output;
  }

  #toolSignatures(tool: string): { before: ToolSignature | undefined; now: ToolSignature | undefined } {
    const find = (start: TurnStart | undefined) => start?.tools.find(([name]) => name === tool);
    return { before: find(this.found), now: find(this.#start) };
  }

  async #saveTool(name: string, tool: string, end: ToolRecord): Promise<void> {
    try {
      await Promise.all([this.#saveStart(), this.#write(name, end, `The result of tool ${tool}`)]);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): never {
    this.#onFailure(error);
    throw error;
  }

  async #write(name: string, value: unknown, what: string, usage?: UsageRow): Promise<void> {
    const { stepValueBytes, executionBytes } = this.#limits;
    const text = toRecord(value);
    const bytes = Buffer.byteLength(text);
    if (bytes > stepValueBytes) {
      throw new ServeError(500, `${what} is ${bytes} bytes as JSON: the limit is ${stepValueBytes}`);
    }
    this.#bytes += bytes;
    if (this.#bytes > executionBytes) {
      throw new ServeError(500, `The calls of the turn take more than ${executionBytes} bytes (limits.executionBytes)`);
    }
    await this.#records.write(name, text, usage);
  }

  #toToolName(toolCallId: string): string {
    const first = this.#toolCalls?.get(toolCallId) ?? this.#modelCalls;
    (this.#toolCalls ??= new Map()).set(toolCallId, first);
    return toToolName(toolCallId, first, this.#modelCalls);
  }
}

function toName(error: unknown): string {
  if (error instanceof ServeError) return "";
  return error instanceof Error ? error.name : "Error";
}

/** The error for callers of a stopped turn. */
export const stopped = (): ServeError => new ServeError(409, "The turn was stopped", { retry: false });

/** Not retried: another attempt would run the tools again that are recorded. */
const toChanged = (change: string): ServeError => new ServeError(500, `Agent changed: ${change}`, { retry: false });

/** True if a tool returned several results (an async iterable). */
export const isMany = (result: unknown): result is AsyncIterable<unknown> =>
  typeof result === "object" && result !== null && Symbol.asyncIterator in result;

async function* saveLast(
  results: AsyncIterable<unknown>,
  save: (end: ToolEnd) => Promise<void>,
  fail: (error: unknown) => Promise<never>,
): AsyncGenerator<unknown> {
  let output: unknown;
  try {
    for await (output of results) yield output;
  } catch (error) {
    await fail(error);
  }
  await save({ output });
}
