// The config
export { defineConfig, type Config, type CustomApp, type ExactConfig, type ServerOptions } from "./config/define.ts";
export type { Limits } from "./config/limits.ts";
export type { CorsOptions } from "./http/cors.ts";
export type { RateLimitOptions } from "./http/rate-limit.ts";
export { embedded, type EmbeddedBackendOptions } from "./backends/embedded/define.ts";
export type { RetentionOptions } from "./engine/retention.ts";
export type { Backend } from "./engine/backend.ts";

// Authentication and access
export { createToken, jwtAuth, type CreateTokenOptions, type JwtAlgorithm, type JwtAuthOptions } from "./auth/jwt.ts";
export type { AccessOptions, AuthProvider } from "./auth/provider.ts";
export type { Caller } from "./core/caller.ts";

// Agents
export {
  defineAgent,
  type AgentDefinition,
  type AgentOverrides,
  type DefineAgentOptions,
  type ModelSettings,
} from "./agents/define.ts";
export type { AgentContext } from "./agents/context.ts";

// Hooks of agents
export type {
  AgentEndEvent,
  AgentErrorEvent,
  AgentEvent,
  AgentHook,
  AgentHooks,
  AgentStartEvent,
  AgentStepEndEvent,
  ToolEndEvent,
  ToolStartEvent,
} from "./agents/define.ts";

// Tools of agents
export {
  defineTool,
  type AnyTool,
  type DefineToolOptions,
  type Tool,
  type ToolExecution,
  type ToolInput,
  type ToolReturn,
  type ToolSchema,
} from "./agents/tool.ts";

// Workflows
export {
  defineWorkflow,
  type AnyInput,
  type DefineWorkflowOptions,
  type InputSchemaCheck,
  type Workflow,
} from "./workflows/define.ts";
export type { TypedWorkflow } from "./workflows/steps/and-workflow.ts";
export type { Retry, WorkflowDefinition } from "./engine/definition.ts";

// Steps
export { andAgent, type AgentOptions as AndAgentOptions, type PromptContext } from "./workflows/steps/and-agent.ts";
export { andAll, type BranchOptions, type OutputsOf } from "./workflows/steps/and-all.ts";
export { andRace } from "./workflows/steps/and-race.ts";
export { andTap, type TapOptions as AndTapOptions } from "./workflows/steps/and-tap.ts";
export { andThen, type Returns as ThenReturn, type ThenOptions as AndThenOptions } from "./workflows/steps/and-then.ts";
export { andWhen, type WhenOptions as AndWhenOptions } from "./workflows/steps/and-when.ts";
export { andWorkflow, type WorkflowOptions as AndWorkflowOptions } from "./workflows/steps/and-workflow.ts";
export type {
  ContextWith as ThenContext,
  OwnType as FixedOutput,
  MaybeSchema,
  OutputOfStep,
  StepIn,
  StepOptions,
  StepSchemas,
  TypedStep,
} from "./workflows/steps/step.ts";
export type { Step, StepType } from "./engine/definition.ts";
export type { StepContext } from "./engine/step-context.ts";
export type { Agent, Prompt } from "./engine/ask.ts";

// Schemas
export type { InputOf, OutputOf, Schema } from "./core/schema.ts";

// Errors and loggers
export { ServeError, type ServeErrorOptions } from "./core/error.ts";
export type { Logger, LogLevel } from "./core/log.ts";
export type { HostLogger } from "./observability/log-output.ts";

// A server embedded in another program
export { createServer, type Server } from "./server/create.ts";
export type { ListeningServer } from "./server/network/listen.ts";
