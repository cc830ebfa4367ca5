import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { StepResult, ToolSet } from "ai";
import { toErrorMessage } from "../../core/error.ts";
import { newId } from "../../core/id.ts";
import type { SdkPart } from "../messages/answer-parts.ts";
import type { Sdk } from "../sdk.ts";
import type { InputCallbacks } from "./input-callbacks.ts";
import { parseProviderCall, type ParsedCall } from "./provider-call.ts";

type ContentPart = StepResult<ToolSet>["content"][number];
type ToolPart = Extract<LanguageModelV4StreamPart, { type: "tool-call" | "tool-result" | "tool-approval-request" }>;

export interface StepPartsOptions {
  readonly sdk: Sdk;
  readonly tools: ToolSet;
  /** Undefined if no tool follows its input. */
  readonly inputs: InputCallbacks | undefined;
  /** The ids of the texts of all steps. */
  readonly ids: Set<string>;
  readonly put: (part: SdkPart) => Promise<void> | undefined;
}

/**
 * The parts of one step, made of the stream of its model call. They are those that `streamText` of the SDK makes of the same
 * stream. Only a tool call that is not run by the provider comes later: when the SDK has parsed it, after the model call.
 */
export class StepParts {
  readonly #options: StepPartsOptions;
  #warnings: Extract<SdkPart, { type: "start-step" }>["warnings"] = [];
  #hasBegun = false;
  /** The shown ids of the texts that have not ended, by kind and own id. The last one that has begun counts. */
  readonly #open = new Map<string, string[]>();
  /** The calls of this step, by their id. */
  calls: Map<string, ParsedCall> | undefined;
  /** The calls that are not parsed, and the results and approvals of these. */
  #held: ToolPart[] | undefined;

  constructor(options: StepPartsOptions) {
    this.#options = options;
  }

  /** Shows a part of the model's stream. */
  async show(part: LanguageModelV4StreamPart): Promise<void> {
    const { put, inputs, sdk } = this.#options;
    if (part.type === "stream-start") return void (this.#warnings = part.warnings);
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      await put({ type: "start-step", request: {}, warnings: this.#warnings });
    }
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
        return put({ ...part, id: this.#begin(part) });
      case "text-delta":
      case "reasoning-delta":
        return this.#delta(part);
      case "text-end":
      case "reasoning-end":
        await put({ ...part, id: this.#idOf(part) });
        return this.#check(part);
      case "tool-input-start": {
        const { type, title, metadata } = toolOf(this.#options.tools, part.toolName);
        const dynamic = part.dynamic ?? type === "dynamic";
        await put({ ...part, dynamic, title, ...(metadata !== undefined && { toolMetadata: metadata }) } as SdkPart);
        return inputs?.start(part.id, part.toolName);
      }
      case "tool-input-delta":
        await put(part);
        return inputs?.add(part.id, part.delta);
      case "file":
      case "reasoning-file": {
        const { type, mediaType, providerMetadata } = part;
        const data = part.data.type === "data" ? part.data.data : String(part.data.url);
        const file = new sdk.DefaultGeneratedFile({ data, mediaType });
        return put({ type, file, ...(providerMetadata && { providerMetadata }) });
      }
      case "tool-call":
      case "tool-result":
      case "tool-approval-request":
        return this.#toolPart(part);
      case "tool-input-end":
      case "source":
      case "custom":
      case "ping":
        return put(part);
    }
  }

  /** Shows the calls that the SDK has parsed, in the order of the model. */
  async showCalls(content: readonly ContentPart[]): Promise<void> {
    for (const part of content) {
      if (part.type === "tool-call" && !this.calls?.has(part.toolCallId)) this.#add(part);
    }
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const part of held) {
      if (part.type !== "tool-call") await this.#showOfCall(part);
      else await this.#showCall(this.calls?.get(part.toolCallId));
    }
  }

  #add(call: ParsedCall): void {
    (this.calls ??= new Map()).set(call.toolCallId, call);
  }

  /** The texts of a step have ids that no other text of the answer has. */
  #begin({ type, id }: { type: string; id: string }): string {
    const { ids } = this.#options;
    const kind = toKind(type);
    const shown = ids.has(`${kind} ${id}`) ? newId() : id;
    ids.add(`${kind} ${shown}`);
    this.#open.set(`${kind} ${id}`, [...(this.#open.get(`${kind} ${id}`) ?? []), shown]);
    return shown;
  }

  #idOf({ type, id }: { type: string; id: string }): string {
    return this.#open.get(`${toKind(type)} ${id}`)?.at(-1) ?? id;
  }

  async #delta(part: Extract<LanguageModelV4StreamPart, { type: "text-delta" | "reasoning-delta" }>): Promise<void> {
    const { type, delta: text, providerMetadata } = part;
    if (type === "text-delta" && text === "" && !providerMetadata) return;
    await this.#options.put({ type, id: this.#idOf(part), text, ...(providerMetadata && { providerMetadata }) });
    this.#check(part);
  }

  /** Refuses a part of a text that has not begun, and forgets one that has ended. */
  #check({ type, id }: { type: string; id: string }): void {
    const kind = toKind(type);
    const open = this.#open.get(`${kind} ${id}`);
    // The words are those of the SDK.
    if (!open?.length) throw new Error(`${kind} part ${id} not found`);
    if (type.endsWith("-end")) open.pop();
  }

  async #toolPart(part: ToolPart): Promise<void> {
    const { sdk, tools } = this.#options;
    const isHeld = this.#held?.some(({ toolCallId }) => toolCallId === part.toolCallId);
    if (part.type !== "tool-call" && !isHeld) return this.#showOfCall(part);
    const call = part.type === "tool-call" && !isHeld ? await parseProviderCall(sdk, tools, part) : undefined;
    if (!call) return void (this.#held ??= []).push(part);
    this.#add(call);
    return this.#showCall(call);
  }

  async #showCall(call: ParsedCall | undefined): Promise<void> {
    const { put, inputs } = this.#options;
    if (!call) return;
    await put(call);
    if (call.invalid && !call.providerExecuted) {
      const { toolCallId, toolName, input, title, toolMetadata } = call;
      const error = toErrorMessage(call.error);
      const more = { title, ...(toolMetadata && { toolMetadata }) };
      await put({ type: "tool-error", toolCallId, toolName, input, error, dynamic: true, ...more });
    }
    await inputs?.end(call);
  }

  /** Shows the result of a call that the provider has run, or its question whether it may. */
  async #showOfCall(part: Exclude<ToolPart, { type: "tool-call" }>): Promise<void> {
    const { put } = this.#options;
    const { toolCallId } = part;
    const toolCall = this.calls?.get(toolCallId);
    if (part.type === "tool-approval-request") {
      // Without a call, the SDK ends the answer with an error.
      if (toolCall) await put({ type: part.type, approvalId: part.approvalId, toolCall });
      return;
    }
    const { toolName, result, isError, dynamic, providerMetadata } = part;
    const { input, toolMetadata } = toolCall ?? {};
    const more = { ...(providerMetadata && { providerMetadata }), ...(toolMetadata && { toolMetadata }) };
    const shown = { toolCallId, toolName, input, providerExecuted: true, dynamic, ...more };
    // The casts are safe: these are the fields of the SDK's own parts.
    await put(
      (isError
        ? { type: "tool-error", ...shown, error: result }
        : { type: "tool-result", ...shown, output: result }) as never,
    );
  }
}

/** The fields of a tool that are shown. They are empty for an unknown one. */
export const toolOf = (tools: ToolSet, name: string): ShownTool =>
  Object.hasOwn(tools, name) ? (tools[name] as object) : {};
interface ShownTool {
  readonly type?: string;
  readonly title?: string;
  readonly metadata?: object;
  /** True if the provider may send its result in a later model call. */
  readonly supportsDeferredResults?: boolean;
}

const toKind = (type: string): string => type.slice(0, type.indexOf("-"));
