import type { LanguageModelV4GenerateResult, LanguageModelV4StreamPart, LanguageModelV4Usage } from "@ai-sdk/provider";
import { attempt } from "../../core/attempt.ts";
import type { AgentCounts } from "../../core/metrics.ts";
import type { Span } from "../../core/trace.ts";
import type { KeptCall } from "../model-calls/kept-call.ts";
import { fromModelUsage } from "./spans.ts";

/** The outcome of a model call. An `aborted` one was cut off: its caller left, or another part of the call failed. */
type Outcome = keyof AgentCounts["calls"];

/** A call that is kept for the console, and the text of its error. */
export interface ModelCallRecord {
  readonly call: KeptCall;
  toError(error: unknown): string;
}

/** One request to a model: its span and its numbers. Only the first end counts. */
export class ModelCall {
  readonly #span: Span | undefined;
  readonly #counts: AgentCounts | undefined;
  readonly #onUsage: (usage: LanguageModelV4Usage) => void;
  readonly #kept: ModelCallRecord | undefined;
  #isOpen = true;

  constructor(
    span: Span | undefined,
    counts: AgentCounts | undefined,
    onUsage: (usage: LanguageModelV4Usage) => void,
    kept?: ModelCallRecord,
  ) {
    this.#span = span;
    this.#counts = counts;
    this.#onUsage = onUsage;
    this.#kept = kept;
  }

  /** Runs a function with the span as the active one. */
  enter<T>(run: () => T): T {
    return this.#span ? this.#span.enter(run) : run();
  }

  /** Adds a part of the stream to the kept call. */
  see(part: LanguageModelV4StreamPart): void {
    if (this.#kept) attempt(() => this.#kept?.call.see(part));
  }

  /** Adds an answer that is not streamed to the kept call. */
  answer(result: LanguageModelV4GenerateResult): void {
    if (this.#kept) attempt(() => this.#kept?.call.answer(result));
  }

  use(usage: LanguageModelV4Usage): void {
    this.#span?.set(fromModelUsage(usage));
    this.#onUsage(usage);
    if (!this.#counts) return;
    this.#counts.inputTokens += toCount(usage.inputTokens.total);
    this.#counts.outputTokens += toCount(usage.outputTokens.total);
  }

  end(outcome: Outcome, error?: unknown): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#span?.end(error);
    if (this.#counts) this.#counts.calls[outcome]++;
    if (!this.#kept) return;
    const { call, toError } = this.#kept;
    const toText = { success: () => undefined, aborted: () => "Aborted", error: () => toError(error) };
    attempt(() => call.end(toText[outcome]()));
  }
}

/** Returns a number that can be added. A provider may report anything. */
export const toCount = (tokens: unknown): number =>
  typeof tokens === "number" && Number.isFinite(tokens) && tokens > 0 ? tokens : 0;
