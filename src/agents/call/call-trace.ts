import type { LanguageModelV4CallOptions, LanguageModelV4Usage } from "@ai-sdk/provider";
import { attempt } from "../../core/attempt.ts";
import type { CallContext } from "../../core/caller.ts";
import type { Clock } from "../../core/clock.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { Span, SpanOptions, Tracer } from "../../core/trace.ts";
import type { ConversationKey } from "../../engine/contract/conversations.ts";
import type { UsageRow, UsageStore } from "../../engine/contract/usage.ts";
import type { AgentDefinition } from "../define.ts";
import type { KeptCalls } from "../model-calls/kept-calls.ts";
import { toUsageRow, type CountedCall } from "../usage/to-usage-row.ts";
import { toCallError } from "./failure.ts";
import { ModelCall, type ModelCallRecord } from "./model-call.ts";
import { startAgentSpan, toModelSpan } from "./spans.ts";

export interface CallTraceParts {
  readonly agent: AgentDefinition;
  readonly callContext: CallContext;
  readonly tracer: Tracer;
  readonly metrics?: Metrics | undefined;
  /** Keeps the model calls of turns. @default they are not kept */
  readonly modelCalls?: KeptCalls | undefined;
  /** True if errors of tools and of kept calls have their own text. @default false */
  readonly showDetail?: boolean | undefined;
  /** Counts the model calls that are not recorded. */
  readonly usage: Pick<UsageStore, "count">;
  readonly clock: Clock;
}

/** The answer of a turn: its conversation and its id. */
export interface AnswerPlace {
  readonly key: ConversationKey;
  readonly id: () => string;
}

interface ModelRequest {
  readonly model: CountedCall["model"];
  readonly params: LanguageModelV4CallOptions;
  /** The answer for which the call is kept. Undefined if it is not kept. */
  readonly answer: AnswerPlace | undefined;
  /** True if the call is counted with its record. */
  readonly isRecorded: boolean;
}

/** The spans, counts and kept model calls of one call. */
export class CallTrace {
  readonly span: Span | undefined;
  readonly #parts: CallTraceParts;
  readonly #spans: Span[] = [];
  readonly #modelCalls: ModelCall[] = [];

  constructor(parts: CallTraceParts) {
    this.#parts = parts;
    this.span = startAgentSpan(parts.tracer, parts.agent, parts.callContext);
  }

  /** The number of model calls. */
  get modelCalls(): number {
    return this.#modelCalls.length;
  }

  /** Starts a span inside the call. Returns undefined if spans are not recorded. */
  start(toOptions: (parent: Span) => SpanOptions): Span | undefined {
    const { span } = this;
    const { tracer, callContext } = this.#parts;
    if (!span) return undefined;
    const inner = tracer.start(() => {
      const options = toOptions(span);
      return { ...options, attributes: { ...options.attributes, "user.id": callContext.userId } };
    });
    if (inner) this.#spans.push(inner);
    return inner;
  }

  startModelCall(request: ModelRequest): ModelCall {
    const { model, isRecorded } = request;
    const { metrics, agent, usage } = this.#parts;
    const span = this.start((parent) => toModelSpan(parent, model));
    const onUsage = (used: LanguageModelV4Usage): void =>
      isRecorded ? undefined : usage.count(this.toUsageRow(model, used));
    const call = new ModelCall(span, metrics?.agent(agent.id), onUsage, this.#keep(request));
    this.#modelCalls.push(call);
    return call;
  }

  #keep({ model, params, answer }: ModelRequest): ModelCallRecord | undefined {
    const { modelCalls, showDetail = false } = this.#parts;
    if (!modelCalls || !answer) return undefined;
    const call = attempt(() => modelCalls.begin(answer.key, answer.id(), model, params));
    return call && { call, toError: (error) => toCallError(error, showDetail) };
  }

  /** Counts a failed tool call. */
  countToolError(): void {
    const counts = this.#parts.metrics?.agent(this.#parts.agent.id);
    if (counts) counts.toolErrors++;
  }

  /** Returns the usage of a model call that ends now. */
  toUsageRow(model: CountedCall["model"], usage: LanguageModelV4Usage): UsageRow {
    const { agent, callContext, clock } = this.#parts;
    return toUsageRow({ agentId: agent.id, callContext, model, usage, at: clock.now() });
  }

  /** Ends all spans. */
  close(): void {
    // Their owners did not end these: a tool ignored the abort, or a model call was cut off.
    for (const call of this.#modelCalls) call.end("aborted");
    for (const inner of this.#spans) inner.end();
    this.span?.end();
  }
}
