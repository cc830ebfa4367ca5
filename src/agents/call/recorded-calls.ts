import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { toErrorMessage } from "../../core/error.ts";
import type { JsonText } from "../../core/json.ts";
import type { AttemptRecords } from "../../engine/records.ts";
import type { AgentInput } from "./messages.ts";

export interface RecordLimits {
  /** The largest record, as JSON. */
  readonly stepValueBytes: number;
  /** The most bytes of all records of a turn. */
  readonly executionBytes: number;
}

/** A turn that continues after a crash. */
export interface DurableTurn {
  /** The same when the turn is repeated. */
  readonly id: string;
  readonly records: AttemptRecords;
}
/** The beginning of a turn: what must be the same when the turn is repeated. */
export interface TurnStart {
  readonly input: AgentInput;
  readonly instructions: string | undefined;
  /** The names of the tools. */
  readonly tools: readonly string[];
}
/** The end of a tool call. */
type ToolEnd = { readonly output: unknown } | { readonly error: string };

/**
 * The model calls and tool calls of one turn, recorded as they end.
 *
 * C1. A turn that a crash has interrupted is repeated from its beginning, by the loop of the AI SDK. Model call k returns
 *     record k, a tool call its own record: nothing that is recorded runs again.
 * C2. A model call is recorded when its stream has finished. Its tools start only when the record is durable.
 * C3. What a turn begins with is recorded together with its first call: until then a repetition may begin in another way.
 * C4. A failure of the model is not recorded: the turn ends with it, or the SDK asks again.
 */
export class RecordedCalls {
  /** The id of the turn, the same after a crash. */
  readonly turnId: string;
  readonly #records: AttemptRecords;
  readonly #limits: RecordLimits;
  readonly #onFailure: (error: unknown) => void;
  #start: TurnStart | undefined;
  #isStartStored: boolean;
  #bytes = 0;
  /** The number of model calls that have ended. */
  #modelCalls = 0;
  /** The model calls after which tool calls were made, by their id. Some providers use an id again. */
  readonly #toolCalls = new Map<string, number>();

  /** `onFailure` ends the turn: a result cannot be recorded. */
  constructor({ id, records }: DurableTurn, limits: RecordLimits, onFailure: (error: unknown) => void) {
    this.turnId = id;
    this.#records = records;
    this.#limits = limits;
    this.#onFailure = onFailure;
    const start = records.found.get("start");
    this.#isStartStored = start !== undefined;
    if (start !== undefined) this.#start = JSON.parse(start) as TurnStart;
  }

  /** The beginning of a turn that is repeated. */
  get found(): TurnStart | undefined {
    return this.#isStartStored ? this.#start : undefined;
  }
  begin(start: TurnStart): void {
    this.#start = start;
  }

  /** The parts of the next model call, if it is recorded. */
  takeModelCall(): LanguageModelV4StreamPart[] | undefined {
    const text = this.#records.found.get(toModelName(this.#modelCalls));
    if (text === undefined) return undefined;
    this.#modelCalls++;
    return (JSON.parse(text) as LanguageModelV4StreamPart[]).map(revive);
  }

  /** Records the parts of the model call that has ended. */
  async saveModelCall(parts: readonly LanguageModelV4StreamPart[]): Promise<void> {
    const name = toModelName(this.#modelCalls++);
    try {
      if (!this.#isStartStored && this.#start) {
        this.#isStartStored = true;
        void this.#write("start", this.#start, "The beginning of the turn").catch(this.#onFailure);
      }
      await this.#write(name, parts, "The answer of the model");
    } catch (error) {
      this.#onFailure(error);
      throw error;
    }
  }

  /** True if a tool call was recorded before the turn was repeated. */
  isToolFound(toolCallId: string): boolean {
    return this.#records.found.has(this.#toToolName(toolCallId));
  }

  /** True if a model call and these tool calls of it were recorded before the turn was repeated. */
  isStepFound(step: number, toolCallIds: readonly string[]): boolean {
    const { found } = this.#records;
    const names = toolCallIds.map((id) => toToolName(id, this.#toolCalls.get(id) ?? step + 1, step + 1));
    return found.has(toModelName(step)) && names.every((name) => found.has(name));
  }

  /** The key of a tool call, for services that must not act twice. */
  toIdempotencyKey(toolCallId: string): string {
    return `${this.turnId}/${this.#toToolName(toolCallId).slice(toolPrefix.length)}`;
  }

  /** Returns the recorded result of a tool call, or runs the tool and records its result. The last one counts if there are many. */
  runTool(tool: string, toolCallId: string, run: () => unknown, signal: AbortSignal): unknown {
    const name = this.#toToolName(toolCallId);
    const text = this.#records.found.get(name);
    if (text !== undefined) return settle(JSON.parse(text) as ToolEnd);
    const save = (end: ToolEnd): Promise<void> => this.#saveTool(name, tool, end);
    const fail = async (error: unknown): Promise<never> => {
      // A tool that was aborted runs again when the turn is repeated.
      if (!signal.aborted) await save({ error: toErrorMessage(error) });
      throw error;
    };
    let result: unknown;
    try {
      result = run();
    } catch (error) {
      return fail(error);
    }
    if (isMany(result)) return saveLast(result, save, fail);
    return Promise.resolve(result).then(async (output) => {
      await save({ output });
      return output;
    }, fail);
  }

  async #saveTool(name: string, tool: string, end: ToolEnd): Promise<void> {
    try {
      await this.#write(name, end, `The result of tool ${tool}`);
    } catch (error) {
      this.#onFailure(error);
      throw error;
    }
  }

  async #write(name: string, value: unknown, what: string): Promise<void> {
    const { stepValueBytes, executionBytes } = this.#limits;
    const text: JsonText = JSON.stringify(value, encodeBytes);
    const bytes = Buffer.byteLength(text);
    if (bytes > stepValueBytes) {
      throw new TypeError(`${what} is ${bytes} bytes as JSON: the limit is ${stepValueBytes}`);
    }
    this.#bytes += bytes;
    if (this.#bytes > executionBytes) {
      throw new TypeError(`The calls of the turn take more than ${executionBytes} bytes (limits.executionBytes)`);
    }
    await this.#records.write(name, text);
  }

  #toToolName(toolCallId: string): string {
    const first = this.#toolCalls.get(toolCallId) ?? this.#modelCalls;
    this.#toolCalls.set(toolCallId, first);
    return toToolName(toolCallId, first, this.#modelCalls);
  }
}

const toModelName = (index: number): string => `model#${index}`;
const toolPrefix = "tool ";
/** The number of the model call distinguishes a call whose id was used by an earlier one. */
const toToolName = (id: string, first: number, current: number): string =>
  toolPrefix + (first === current ? id : `${id}#${current}`);

async function settle(end: ToolEnd): Promise<unknown> {
  if ("error" in end) throw new Error(end.error);
  return end.output;
}

const isMany = (result: unknown): result is AsyncIterable<unknown> =>
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

/** Encodes bytes as base64, which the SDK accepts. Reads `this[key]`, because `value` may be the result of `toJSON()`. */
function encodeBytes(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const own = this[key];
  return own instanceof Uint8Array ? Buffer.from(own).toString("base64") : value;
}

/** Returns a part as the model sent it: JSON has changed the time of its response. */
function revive(part: LanguageModelV4StreamPart): LanguageModelV4StreamPart {
  if (part.type !== "response-metadata" || part.timestamp === undefined) return part;
  return { ...part, timestamp: new Date(part.timestamp) };
}
