import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { GenerateTextResult, ModelMessage, StepResult, ToolSet } from "ai";
import type { SdkPart } from "../messages/answer-parts.ts";
import type { Sdk } from "../sdk.ts";
import { findDenials } from "./early-results.ts";
import { Handoff } from "./handoff.ts";
import { InputCallbacks } from "./input-callbacks.ts";
import type { AnswerReader, Operation } from "./operation.ts";
import { PartTimes } from "./part-times.ts";
import type { ParsedCall } from "./provider-call.ts";
import type { SdkSettings } from "./sdk-settings.ts";
import { StepParts, toolOf } from "./step-parts.ts";

type Result = GenerateTextResult<ToolSet, never, never>;
type Step = StepResult<ToolSet>;

/**
 * The parts of an answer, as they arrive. The loop of the AI SDK is that of `generateText`: its model reads the stream of the
 * provider (`guardModel`) and shows the parts of it. `streamText` would take 100 KB for each answer that is open.
 *
 * P1. A reader sees the parts that `streamText` has. A tool call that the server or the client runs comes when the model call
 *     has ended, and so do its results; a call that the provider runs comes in its place.
 * P2. The loop waits for the reader: every callback returns when its parts are taken.
 * P3. A failure is thrown to the reader after the parts before it. The loop is aborted when the reader leaves.
 */
export class AnswerStream implements AnswerReader {
  readonly #sdk: Sdk;
  readonly #operation: Operation;
  readonly #parts = new Handoff<SdkPart>();
  readonly #put = (part: SdkPart): Promise<void> | undefined => this.#parts.put(part);
  #tools: ToolSet = {};
  #inputs: InputCallbacks | undefined;
  #step: StepParts | undefined;
  #times: PartTimes | undefined;
  readonly #ids = new Set<string>();
  // Most answers have no tool calls, so these are made when they are needed.
  /** The calls that were decided before and have a result now, until the first step. */
  #early: Set<string> | undefined;
  /** The calls whose tools run, by their id. */
  #running: Map<string, ParsedCall> | undefined;
  /** The approvals that were shown. */
  #asked: Set<string> | undefined;
  /** The error of a model that could not be asked. The SDK may show another one instead. */
  #refusal: unknown;

  constructor(sdk: Sdk, operation: Operation) {
    this.#sdk = sdk;
    this.#operation = operation;
    operation.reader = this;
    const { sdkSignal } = operation;
    const close = (): void => this.#parts.close(sdkSignal.reason);
    if (sdkSignal.aborted) close();
    else sdkSignal.addEventListener("abort", close, { once: true });
  }

  /** Resolves to the next part; to undefined when the answer is whole. */
  take(): Promise<SdkPart | undefined> {
    return this.#parts.take();
  }

  /** Runs the loop. Resolves to its result; to undefined if it has failed, which is thrown to the reader. */
  async run(settings: SdkSettings): Promise<Result | undefined> {
    this.#tools = settings.tools ?? {};
    if (InputCallbacks.isNeeded(settings.tools))
      this.#inputs = new InputCallbacks(this.#sdk, settings, this.#operation.sdkSignal);
    try {
      for (const part of findDenials(settings.messages ?? [])) await this.#showEarly(part);
      const result = await this.#sdk.generateText({ ...settings, ...this.#toCallbacks(settings) } as SdkSettings);
      this.#parts.end();
      return result as Result;
    } catch (error) {
      const isRefusal = this.#refusal !== undefined && !this.#sdk.RetryError.isInstance(error);
      this.#parts.end({ error: isRefusal ? this.#refusal : error });
      return undefined;
    }
  }

  #toCallbacks({ tools, onToolExecutionStart, onToolExecutionEnd, onStepEnd }: SdkSettings): Partial<SdkSettings> {
    return {
      ...(tools && this.#inputs && { tools: InputCallbacks.without(tools) }),
      prepareStep: async ({ messages, responseMessages, stepNumber }) => {
        this.#times = new PartTimes(this.#operation.clock);
        if (this.#inputs) this.#inputs.messages = messages;
        if (stepNumber === 0) await this.#showRefused(responseMessages, messages);
        return undefined;
      },
      onLanguageModelCallEnd: async ({ content }) => {
        await this.#step?.showCalls(content).catch((error: unknown) => this.#operation.abort(error));
      },
      onToolExecutionStart: async (event) => {
        (this.#running ??= new Map()).set(event.toolCall.toolCallId, event.toolCall);
        await onToolExecutionStart?.(event);
      },
      onToolExecutionEnd: async (event) => {
        const { toolOutput } = event;
        await onToolExecutionEnd?.(event);
        this.#running?.delete(toolOutput.toolCallId);
        if (this.#step) await this.#put(toolOutput);
        else await this.#showEarly(toolOutput);
      },
      onStepEnd: async (step) => {
        await this.#endStep(step);
        await onStepEnd?.(step);
      },
    };
  }

  /** Shows a part of the stream of the model. Throws if the reader has left. */
  async show(part: LanguageModelV4StreamPart): Promise<void> {
    this.#refusal = undefined;
    this.#times?.add(part);
    this.#step ??= new StepParts({
      sdk: this.#sdk,
      tools: this.#tools,
      inputs: this.#inputs,
      ids: this.#ids,
      put: this.#put,
    });
    await this.#step.show(part);
    if (part.type === "tool-approval-request") (this.#asked ??= new Set()).add(part.approvalId);
    if (this.#parts.isClosed) throw this.#operation.sdkSignal.reason;
  }

  /** Ends the answer with an error of a model that has begun to answer. */
  fail(error: unknown): void {
    this.#parts.end({ error });
  }

  refuse(error: unknown): void {
    this.#refusal = error;
  }

  isDeferred(toolName: string): boolean {
    return toolOf(this.#tools, toolName).supportsDeferredResults === true;
  }

  /** Shows the results of a tool that has many, except for the last one, which is its result. */
  async *follow(toolCallId: string, results: AsyncIterable<unknown>): AsyncGenerator<unknown> {
    for await (const output of results) {
      const call = this.#running?.get(toolCallId);
      // The cast is safe: a result has the fields of its call.
      if (call) await this.#put({ ...call, type: "tool-result", output, preliminary: true } as never);
      yield output;
    }
  }

  /** Shows that a call waits for an approval, before the tools of the other calls run. */
  ask(toolCallId: string, approvalId: string): void {
    const toolCall = this.#step?.calls?.get(toolCallId);
    if (!toolCall) return;
    (this.#asked ??= new Set()).add(approvalId);
    void this.#put({ type: "tool-approval-request", approvalId, toolCall });
  }

  async #showEarly(part: Extract<SdkPart, { toolCallId: string }>): Promise<void> {
    (this.#early ??= new Set()).add(part.toolCallId);
    await this.#put(part);
  }

  /** Shows the calls that were approved and are not run: their input is not valid any more, or they are denied after all. */
  async #showRefused(results: readonly ModelMessage[], messages: readonly ModelMessage[]): Promise<void> {
    for (const { content } of results) {
      for (const part of typeof content === "string" ? [] : content) {
        if (part.type !== "tool-result" || this.#early?.has(part.toolCallId)) continue;
        const { toolCallId, toolName, output } = part;
        if (output.type === "execution-denied") {
          await this.#put({ type: "tool-output-denied", toolCallId, toolName } as never);
        } else if (output.type === "error-text") {
          const { type, title, metadata } = toolOf(this.#tools, toolName);
          const more = {
            title,
            ...(type === "dynamic" && { dynamic: true }),
            ...(metadata && { toolMetadata: metadata }),
          };
          const input = findInput(messages, toolCallId);
          await this.#put({ type: "tool-error", toolCallId, toolName, input, error: output.value, ...more } as never);
        }
      }
    }
  }

  /** Shows the rest of a step: approvals that the server has decided itself, and the end. */
  async #endStep(step: Step): Promise<void> {
    for (const part of step.content) {
      if (part.type !== "tool-approval-request" || this.#asked?.has(part.approvalId)) continue;
      const { approvalId } = part;
      (this.#asked ??= new Set()).add(approvalId);
      await this.#put(part);
      for (const response of step.content) {
        if (response.type !== "tool-approval-response" || response.approvalId !== approvalId) continue;
        await this.#put(response);
        const { toolCallId, toolName } = response.toolCall;
        if (!response.approved) await this.#put({ type: "tool-output-denied", toolCallId, toolName } as never);
      }
    }
    const { finishReason, rawFinishReason, usage, providerMetadata, performance } = step;
    const { id, timestamp, modelId, headers } = step.response;
    Object.assign(performance, this.#times?.toPerformance(usage, performance.responseTimeMs));
    this.#step = undefined;
    this.#times = undefined;
    await this.#put({
      type: "finish-step",
      finishReason,
      rawFinishReason,
      usage,
      performance,
      providerMetadata,
      response: { id, timestamp, modelId, ...(headers && { headers }) },
    });
  }
}

function findInput(messages: readonly ModelMessage[], toolCallId: string): unknown {
  const parts = messages.flatMap(({ role, content }) =>
    role === "assistant" && typeof content !== "string" ? content : [],
  );
  const call = parts.findLast((part) => part.type === "tool-call" && part.toolCallId === toolCallId);
  return call?.type === "tool-call" ? call.input : undefined;
}
