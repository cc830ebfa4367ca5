import type { ModelMessage, ToolSet } from "ai";
import type { Sdk } from "../sdk.ts";
import type { SdkSettings } from "./sdk-settings.ts";

type Name = "onInputStart" | "onInputDelta" | "onInputAvailable";
const names: readonly Name[] = ["onInputStart", "onInputDelta", "onInputAvailable"];
const has = (tool: object): boolean => names.some((name) => (tool as Record<string, unknown>)[name] !== undefined);

/** Calls the functions of tools that follow their input. The loop of the SDK would call them when the whole answer is there. */
export class InputCallbacks {
  readonly #sdk: Sdk;
  readonly #tools: ToolSet;
  readonly #contexts: Readonly<Record<string, unknown>>;
  readonly #signal: AbortSignal;
  /** The tools of the calls whose input arrives, by the id of the call. */
  readonly #open = new Map<string, string>();
  /** The messages that the model was sent. */
  messages: ModelMessage[] = [];

  constructor(sdk: Sdk, { tools = {}, toolsContext }: SdkSettings, signal: AbortSignal) {
    this.#sdk = sdk;
    this.#tools = tools;
    this.#contexts = toolsContext ?? {};
    this.#signal = signal;
  }

  static isNeeded(tools: ToolSet | undefined): boolean {
    return Object.values(tools ?? {}).some(has);
  }

  /** Returns the tools for the SDK, without these functions. */
  static without(tools: ToolSet): ToolSet {
    const entries = Object.entries(tools).map(([name, tool]) => {
      const rest = Object.entries(tool).filter(([field]) => !names.includes(field as Name));
      return [name, has(tool) ? Object.fromEntries(rest) : tool];
    });
    return Object.fromEntries(entries) as ToolSet;
  }

  async start(toolCallId: string, toolName: string): Promise<void> {
    this.#open.set(toolCallId, toolName);
    await this.#call("onInputStart", toolName, { toolCallId });
  }
  async add(toolCallId: string, inputTextDelta: string): Promise<void> {
    const toolName = this.#open.get(toolCallId);
    if (toolName !== undefined) await this.#call("onInputDelta", toolName, { toolCallId, inputTextDelta });
  }
  async end(call: {
    toolCallId: string;
    toolName: string;
    input: unknown;
    invalid?: boolean | undefined;
  }): Promise<void> {
    const { toolCallId, toolName, input, invalid } = call;
    this.#open.delete(toolCallId);
    if (!invalid) await this.#call("onInputAvailable", toolName, { toolCallId, input });
  }

  async #call(name: Name, toolName: string, event: object): Promise<void> {
    const tool = Object.hasOwn(this.#tools, toolName) ? this.#tools[toolName] : undefined;
    if (!tool?.[name]) return;
    const context = await this.#toContext(toolName, tool.contextSchema);
    // The cast is safe: these are the options of the function of that name.
    await tool[name]({ ...event, messages: this.messages, abortSignal: this.#signal, context } as never);
  }

  async #toContext(toolName: string, schema: unknown): Promise<unknown> {
    const context = this.#contexts[toolName];
    const { validate } = schema === undefined ? {} : this.#sdk.asSchema(schema as never);
    const result = await validate?.(context);
    if (result && !result.success) throw result.error;
    return result ? result.value : context;
  }
}
