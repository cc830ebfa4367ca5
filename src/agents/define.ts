import type { LanguageModel, LanguageModelUsage, ModelMessage, StepResult, ToolSet, UIMessage } from "ai";
import type { Authorize } from "../core/access/authorize.ts";
import { cut } from "../core/cut.ts";
import { idRule, isId } from "../core/id.ts";
import type { Agent } from "../engine/definition/reference.ts";
import type { Runtime } from "../engine/runtime.ts";
import type { AgentContext } from "./context.ts";
import type { AnyTool } from "./tool.ts";
import { checkTools, isRecord, type ToolsByName } from "./tools/check-tools.ts";

/**
 * The settings of model calls. The `options` of a request override them, except for `providerOptions`: a request can
 * add keys there, but not change those set here.
 */
export interface ModelSettings {
  /** The randomness of the answer. The range depends on the provider. */
  temperature?: number;
  /** Max tokens that the model generates in one step. */
  maxOutputTokens?: number;
  /** Nucleus sampling: the model considers only the most likely tokens with this total probability. */
  topP?: number;
  /** The model considers only this number of the most likely tokens. */
  topK?: number;
  /** The penalty for tokens that already appear in the text. */
  presencePenalty?: number;
  /** The penalty for tokens by how often they already appear in the text. */
  frequencyPenalty?: number;
  /** The seed for repeatable answers, if the model supports it. */
  seed?: number;
  /** The texts at which the model stops. */
  stopSequences?: string[];
  /** Options for the model's provider, by the name of the provider. */
  providerOptions?: Record<string, Record<string, unknown>>;
}

/** The options of `defineAgent()`. */
export interface DefineAgentOptions<Id extends string = string> extends ModelSettings {
  /** The unique id of the agent. It is part of the URL: `/agents/<id>`. */
  id: Id;
  /** The display name. @default the id */
  name?: string;
  /** A description for clients. @default "" */
  description?: string;
  /** The system prompt, or a function that returns it for each call. */
  instructions: string | ((context: AgentContext) => string | Promise<string>);
  /** A language model of the AI SDK, or a name in the form `"provider/model"`. */
  model: LanguageModel;
  /**
   * The tools of the model by name, or a function that returns them. The function is called at the first agent call after each
   * load of the config, and again if it has failed. @default {}
   */
  tools?: Record<string, AnyTool> | (() => Record<string, AnyTool> | Promise<Record<string, AnyTool>>);
  /** Max model calls within one agent call. A request can only lower it. @default 10 */
  maxSteps?: number;
  /** Enables stored conversations: calls with a `conversationId` include the earlier messages. @default true */
  memory?: boolean;
  /**
   * The rule for a turn of a stored conversation whose client disconnects: it continues, and its answer is stored, or it is
   * aborted. A request can choose `abort` with `options.onDisconnect`. @default "continue"
   */
  onDisconnect?: "continue" | "abort";
  /** The number of retries after a failed model request. @default 2 */
  maxRetries?: number;
  /** Callbacks that run at the stages of a call. */
  hooks?: AgentHooks;
  /**
   * Decides who may call this agent, and read or change its conversations. Needs an authentication provider.
   * @default `authorize` of the config
   */
  authorize?: Authorize | undefined;
}

/** The options that `agent.with()` can replace: all but the id. `undefined` restores the default of an option. */
export interface AgentOverrides extends Partial<Omit<DefineAgentOptions, "id">> {}

/** The fields of every hook event: the agent, and the context of the call. */
export interface AgentEvent {
  agent: AgentDefinition;
  context: AgentContext;
  /** Starts workflows, asks agents and sends events, for the user of the call. */
  runtime: Runtime;
}
/** The event of `onStart`. */
export interface AgentStartEvent extends AgentEvent {
  /** The messages for the model, stored ones included. */
  messages: readonly ModelMessage[];
}
/** The event of `onStepEnd`. */
export interface AgentStepEndEvent extends AgentEvent {
  /** The result of the step, as the AI SDK returns it. */
  step: StepResult<ToolSet>;
}
/** The event of `onToolStart`. */
export interface ToolStartEvent extends AgentEvent {
  toolName: string;
  toolCallId: string;
  /** The input that the model sent. */
  input: unknown;
}
/** The event of `onToolEnd`. */
export interface ToolEndEvent extends ToolStartEvent {
  /** The output of the tool, if it succeeded. */
  output?: unknown;
  /** The error of the tool, if it failed. */
  error?: unknown;
}
/** The event of `onEnd`. */
export interface AgentEndEvent extends AgentEvent {
  /** The text of the last step. */
  text: string;
  finishReason: string;
  /** The token counts, summed over all steps. */
  usage: LanguageModelUsage;
  steps: readonly StepResult<ToolSet>[];
}
/** The event of `onError`. */
export interface AgentErrorEvent extends AgentEvent {
  /** The original error, which may hold more than the client gets. */
  error: unknown;
}
/** The event of `title`. */
export interface AgentTitleEvent extends AgentEvent {
  /** The first message of the conversation. */
  message: UIMessage;
  /** The current title: the first words of that message. */
  title: string;
}
/** A callback for one event. The call waits until it completes. */
export type AgentHook<Event extends AgentEvent> = (event: Event) => void | Promise<void>;

/**
 * The hooks of an agent. An error thrown by a hook fails the call. If it is a `ServeError`, the client gets its status
 * and message. An error thrown by `onError` is only logged.
 */
export interface AgentHooks {
  /** Runs before the first request to the model. */
  onStart?: AgentHook<AgentStartEvent>;
  /** Runs after each answer of the model, when its tool calls have results. */
  onStepEnd?: AgentHook<AgentStepEndEvent>;
  /** Runs before each execution of a tool. */
  onToolStart?: AgentHook<ToolStartEvent>;
  /** Runs after each execution of a tool, also if it failed. */
  onToolEnd?: AgentHook<ToolEndEvent>;
  /** Runs after the last answer of the model, before the turn is stored. */
  onEnd?: AgentHook<AgentEndEvent>;
  /** Runs before the client gets the error. */
  onError?: AgentHook<AgentErrorEvent>;
  /**
   * Returns the title of a new conversation, of 1 to 200 characters. It runs beside the call, when the first message is stored.
   * Without it, with `undefined`, or if it fails or takes more than 30 seconds, the title is the first words of that message.
   */
  title?: (event: AgentTitleEvent) => string | undefined | Promise<string | undefined>;
}

/** An agent as returned by `defineAgent()`: a model, its instructions and its tools. Frozen. */
export interface AgentDefinition<Id extends string = string> extends Agent {
  readonly id: Id;
  readonly name: string;
  readonly description: string;
  readonly instructions: DefineAgentOptions["instructions"];
  readonly model: LanguageModel;
  readonly tools: ToolsByName | (() => ToolsByName | Promise<ToolsByName>);
  readonly maxSteps: number;
  readonly memory: boolean;
  readonly onDisconnect: "continue" | "abort";
  /** The number of retries. Undefined for the default of the AI SDK. */
  readonly maxRetries: number | undefined;
  readonly hooks: AgentHooks;
  readonly authorize: Authorize | undefined;
  readonly settings: ModelSettings;
  /**
   * Returns a new agent of the same id with these options replaced, for example the model in a test. Options are replaced,
   * not merged: `with({ tools: {} })` has no tools. This agent stays as it is.
   */
  readonly with: (overrides: AgentOverrides) => AgentDefinition<Id>;
}

/** Defines an agent. Throws a `TypeError` if an option is invalid. */
export function defineAgent<const Id extends string>(options: DefineAgentOptions<Id>): AgentDefinition<Id> {
  const { id, name = id, description = "", instructions, model, tools = {}, maxSteps = 10, ...others } = options;
  const { memory = true, onDisconnect = "continue", maxRetries, hooks = {}, authorize, ...rest } = others;
  if (!isId(id)) throw new TypeError(`defineAgent: id: expected ${idRule}, found ${cut(String(JSON.stringify(id)))}`);
  const expect = (key: string, isRight: boolean, expected: string): void => {
    if (!isRight) throw new TypeError(`agent ${id}: ${key}: expected ${expected}`);
  };
  expect(
    "instructions",
    ["string", "function"].includes(typeof instructions),
    "a string, or a function that returns one",
  );
  expect("model", isModel(model), 'an AI SDK language model, or "provider/model"');
  if (typeof tools !== "function") checkTools(id, tools);
  expect("maxSteps", Number.isSafeInteger(maxSteps) && maxSteps >= 1, "a whole number of at least 1");
  expect("memory", typeof memory === "boolean", "true or false");
  expect("onDisconnect", ["continue", "abort"].includes(onDisconnect), '"continue" or "abort"');
  expect(
    "maxRetries",
    maxRetries === undefined || (Number.isSafeInteger(maxRetries) && maxRetries >= 0),
    "a whole number of at least 0",
  );
  expect("hooks", isRecord(hooks) && Object.values(hooks).every(isOptionalFunction), "an object of functions by name");
  const noHook = Object.keys(hooks).find((key) => !hookNames.includes(key as keyof AgentHooks));
  expect(`hooks.${noHook}`, noHook === undefined, `one of ${hookNames.join(", ")}`);
  expect("authorize", isOptionalFunction(authorize), "a function");
  for (const key of settingNames) expect(key, isSetting(key, options[key]), settingTypes[key] ?? "a number");
  const unknown = Object.keys(rest).find((key) => !(settingNames as readonly string[]).includes(key));
  if (unknown !== undefined) throw new TypeError(`agent ${id}: unknown option "${cut(unknown)}"`);
  const settings = toModelSettings(options);
  const shown = { id, name, description, instructions, model, tools };
  const own = { ...shown, maxSteps, memory, onDisconnect, maxRetries, hooks, authorize };
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

/** Returns only the model settings of these options. */
export function toModelSettings(options: ModelSettings): ModelSettings {
  const set = settingNames.filter((key) => options[key] !== undefined).map((key) => [key, options[key]]);
  return Object.fromEntries(set) as ModelSettings; // the keys and values come from `options`
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

const hookNames: readonly (keyof AgentHooks)[] = [
  "onStart",
  "onStepEnd",
  "onToolStart",
  "onToolEnd",
  "onEnd",
  "onError",
  "title",
];
const settingTypes: { [K in keyof ModelSettings]?: string } = {
  stopSequences: "an array of strings",
  providerOptions: "an object of options by provider name",
};
function isSetting(key: keyof ModelSettings, value: unknown): boolean {
  if (value === undefined) return true;
  if (key === "stopSequences") return Array.isArray(value) && value.every((text) => typeof text === "string");
  return key === "providerOptions" ? isRecord(value) : typeof value === "number";
}

const isOptionalFunction = (value: unknown): boolean => value === undefined || typeof value === "function";

function isModel(model: unknown): boolean {
  if (typeof model === "string") return /^[^/]+\/.+$/.test(model);
  return isRecord(model) && typeof model["modelId"] === "string" && typeof model["doStream"] === "function";
}
