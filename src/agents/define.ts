import type { LanguageModel, LanguageModelUsage, ModelMessage, StepResult, ToolSet } from "ai";
import { idRule, isId } from "../core/id.ts";
import type { Agent } from "../engine/ask.ts";
import type { AgentContext } from "./context.ts";
import type { AnyTool } from "./tool.ts";

/** How the model is asked. A request's own `options` come first. */
export interface ModelSettings {
  temperature?: number;
  maxOutputTokens?: number;
  topP?: number;
  topK?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  seed?: number;
  stopSequences?: string[];
  /** Options of the model's provider, by its name. */
  providerOptions?: Record<string, Record<string, unknown>>;
}

export interface DefineAgentOptions<Id extends string = string> extends ModelSettings {
  /** Unique; a part of the URL. */
  id: Id;
  /** @default the id */
  name?: string;
  /** @default "" */
  description?: string;
  /** The system prompt, or a function that makes it for each call. */
  instructions: string | ((context: AgentContext) => string | Promise<string>);
  /** A language model of the AI SDK, or `"provider/model"`. */
  model: LanguageModel;
  /** What the agent can do, by the name that the model calls it. */
  tools?: Record<string, AnyTool>;
  /** How often the model is asked within one call, while it calls tools. @default 10 */
  maxSteps?: number;
  /** Whether calls with a `conversationId` remember what was said. @default true */
  memory?: boolean;
  /** How often a failed request to the model is made again. @default 2 */
  maxRetries?: number;
  hooks?: AgentHooks;
}

/** The options that `agent.with()` can replace: all but the id. `undefined` restores the default of an option. */
export interface AgentOverrides extends Partial<Omit<DefineAgentOptions, "id">> {}

/** Every event of a hook: the agent, and the call that the event belongs to. */
export interface AgentEvent {
  agent: AgentDefinition;
  context: AgentContext;
}
export interface AgentStartEvent extends AgentEvent {
  messages: readonly ModelMessage[];
}
export interface AgentStepEndEvent extends AgentEvent {
  step: StepResult<ToolSet>;
}
export interface ToolStartEvent extends AgentEvent {
  toolName: string;
  toolCallId: string;
  input: unknown;
}
export interface ToolEndEvent extends ToolStartEvent {
  output?: unknown;
  error?: unknown;
}
export interface AgentEndEvent extends AgentEvent {
  text: string;
  finishReason: string;
  usage: LanguageModelUsage;
  steps: readonly StepResult<ToolSet>[];
}
export interface AgentErrorEvent extends AgentEvent {
  error: unknown;
}
export type AgentHook<Event extends AgentEvent> = (event: Event) => void | Promise<void>;

/** An error thrown by a hook fails the call; the status and message of a `ServeError` reach the client. */
export interface AgentHooks {
  onStart?: AgentHook<AgentStartEvent>;
  /** Runs after each answer of the model, with the results of its tools. */
  onStepEnd?: AgentHook<AgentStepEndEvent>;
  onToolStart?: AgentHook<ToolStartEvent>;
  onToolEnd?: AgentHook<ToolEndEvent>;
  onEnd?: AgentHook<AgentEndEvent>;
  /** Runs before the client gets the error. */
  onError?: AgentHook<AgentErrorEvent>;
}

/** An agent: a model, its instructions and its tools. */
export interface AgentDefinition<Id extends string = string> extends Agent {
  readonly id: Id;
  readonly name: string;
  readonly description: string;
  readonly instructions: DefineAgentOptions["instructions"];
  readonly model: LanguageModel;
  readonly tools: Readonly<Record<string, AnyTool>>;
  readonly maxSteps: number;
  readonly memory: boolean;
  readonly maxRetries: number | undefined;
  readonly hooks: AgentHooks;
  readonly settings: ModelSettings;
  /**
   * Returns a new agent of the same id with these options replaced, for example the model in a test. Options are replaced,
   * not merged: `with({ tools: {} })` has no tools. This agent stays as it is.
   */
  readonly with: (overrides: AgentOverrides) => AgentDefinition<Id>;
}

export function defineAgent<const Id extends string>(options: DefineAgentOptions<Id>): AgentDefinition<Id> {
  const { id, name = id, description = "", instructions, model, tools = {}, maxSteps = 10 } = options;
  const { memory = true, maxRetries, hooks = {}, ...rest } = options;
  if (!isId(id)) throw new TypeError(`defineAgent: id ${JSON.stringify(id)} is not ${idRule}`);
  const expect = (key: string, isRight: boolean, expected: string): void => {
    if (!isRight) throw new TypeError(`agent ${id}: ${key}: expected ${expected}`);
  };
  expect("instructions", ["string", "function"].includes(typeof instructions), "text, or a function that makes it");
  expect("model", isModel(model), 'a language model of the AI SDK, or "provider/model"');
  expect("tools", isRecord(tools) && Object.values(tools).every(isTool), "tools by their names");
  expect("maxSteps", Number.isSafeInteger(maxSteps) && maxSteps >= 1, "a whole number from 1");
  expect("memory", typeof memory === "boolean", "true or false");
  expect("maxRetries", maxRetries === undefined || (Number.isSafeInteger(maxRetries) && maxRetries >= 0), "0 or more");
  expect("hooks", isRecord(hooks) && Object.values(hooks).every(isOptionalFunction), "functions by their names");
  const noHook = Object.keys(hooks).find((key) => !hookNames.includes(key as keyof AgentHooks));
  expect(`hooks.${noHook}`, noHook === undefined, hookNames.join(", "));
  for (const key of settingNames) expect(key, isSetting(key, options[key]), settingTypes[key] ?? "a number");
  const unknown = Object.keys(rest).find((key) => !(known as readonly string[]).includes(key));
  if (unknown !== undefined) throw new TypeError(`agent ${id}: ${unknown} is no option of an agent`);
  const settings = toModelSettings(options);
  const own = { id, name, description, instructions, model, tools, maxSteps, memory, maxRetries, hooks };
  return Object.freeze({
    type: "agent",
    ...own,
    settings,
    with(overrides: AgentOverrides): AgentDefinition<Id> {
      expect("with", isRecord(overrides), "an object of options");
      if ("id" in overrides) throw new TypeError(`agent ${id}: with() cannot replace the id`);
      return defineAgent<Id>({ ...own, ...settings, ...overrides });
    },
  });
}

/** What of these options is for the model. */
export function toModelSettings(options: ModelSettings): ModelSettings {
  const set = settingNames.filter((key) => options[key] !== undefined).map((key) => [key, options[key]]);
  return Object.fromEntries(set) as ModelSettings; // keys and values are the options' own
}

export const isAgent = (value: unknown): value is AgentDefinition =>
  isRecord(value) && value["type"] === "agent" && typeof value["id"] === "string" && isRecord(value["settings"]);

const settingNames = [
  "temperature",
  "maxOutputTokens",
  "topP",
  "topK",
  "presencePenalty",
  "frequencyPenalty",
  "seed",
  "stopSequences",
  "providerOptions",
] as const satisfies readonly (keyof ModelSettings)[];
const known = [...settingNames, "id", "name", "description", "instructions", "model", "tools", "maxSteps"] as const;

const hookNames: readonly (keyof AgentHooks)[] = [
  "onStart",
  "onStepEnd",
  "onToolStart",
  "onToolEnd",
  "onEnd",
  "onError",
];
const settingTypes: { [K in keyof ModelSettings]?: string } = {
  stopSequences: "an array of texts",
  providerOptions: "options by the name of their provider",
};
function isSetting(key: keyof ModelSettings, value: unknown): boolean {
  if (value === undefined) return true;
  if (key === "stopSequences") return Array.isArray(value) && value.every((text) => typeof text === "string");
  return key === "providerOptions" ? isRecord(value) : typeof value === "number";
}

const isTool = (value: unknown): boolean => isRecord(value) && ("inputSchema" in value || value["type"] === "provider");
const isRecord = (value: unknown): value is Record<string, unknown> =>
  (typeof value === "object" || typeof value === "function") && value !== null && !Array.isArray(value);
const isOptionalFunction = (value: unknown): boolean => value === undefined || typeof value === "function";

function isModel(model: unknown): boolean {
  if (typeof model === "string") return /^[^/]+\/.+$/.test(model);
  return isRecord(model) && typeof model["modelId"] === "string" && typeof model["doStream"] === "function";
}
