// The config
export {
  defineConfig,
  type AppTools,
  type Config,
  type CustomApp,
  type ExactConfig,
  type ServerOptions,
} from "./config/define.ts";
export type { Limits } from "./config/limits.ts";
export type { ConsoleOptions } from "./console/options.ts";
export type { CorsOptions } from "./http/cors.ts";
export type { RateLimitOptions } from "./http/rate-limit.ts";
export { embedded, type EmbeddedBackendOptions } from "./backends/embedded/define.ts";
export type { RetentionOptions } from "./engine/retention.ts";
export type { Backend } from "./engine/contract/backend.ts";

// Authentication and access
export {
  createToken,
  jwtAuth,
  type CreateTokenOptions,
  type JwtAlgorithm,
  type JwtAuthOptions,
  type JwtPublicKeyOptions,
  type JwtSecretOptions,
  type JwtVerifyOptions,
} from "./auth/jwt.ts";
export { oidcAuth, type OidcAuthOptions } from "./auth/oidc/provider.ts";
export type { PublicKeyAlgorithm } from "./auth/public-key.ts";
export type { VerifiedTokenOptions } from "./auth/verified-tokens.ts";
export type { AccessOptions, AuthProvider } from "./auth/provider.ts";
export type {
  Action,
  Authorize,
  AuthorizeApproval,
  AuthorizeConversation,
  AuthorizeConversations,
  AuthorizeExecution,
  AuthorizeRequest,
  AuthorizeSuspension,
  AuthorizeUsage,
} from "./core/access/authorize.ts";
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
export type { ToolContext } from "./agents/call/sdk-tool.ts";
export type { ModelPrice, Prices } from "./agents/usage/prices.ts";

// Hooks of agents
export type {
  AgentEndEvent,
  AgentErrorEvent,
  AgentTitleEvent,
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
  type ApprovalExecution,
  type DefineToolOptions,
  type Tool,
  type ToolExecution,
  type ToolInput,
  type ToolReturn,
  type ToolSchema,
} from "./agents/tool.ts";
export {
  agentTool,
  workflowTool,
  type AgentTool,
  type AgentToolOptions,
  type WorkflowTool,
  type WorkflowToolOptions,
} from "./agents/tools/target-tools.ts";

// Workflows
export { defineWorkflow, type AnyInput, type DefineWorkflowOptions, type Workflow } from "./workflows/define.ts";
export type {
  ConcurrencyContext,
  ConcurrencyOptions,
  Retry,
  TypedWorkflow,
  WorkflowDefinition,
} from "./engine/definition/definition.ts";

// Steps
export { andAgent, type AgentOptions as AndAgentOptions, type PromptContext } from "./workflows/steps/and-agent.ts";
export { andAll, andRace, type BranchOptions, type OutputsOf } from "./workflows/steps/and-all.ts";
export { andBranch, type BranchesOptions, type ConditionalBranch } from "./workflows/steps/and-branch.ts";
export { andDoUntil, andDoWhile, type BodyCheck, type DoOptions, type DoRules } from "./workflows/steps/and-do.ts";
export {
  andForEach,
  type DataLoop,
  type ForEachOptions,
  type ForEachOutput,
  type ForEachRules,
  type ItemOf,
  type ItemResult,
  type ItemsLoop,
  type LoopContext,
  type MapLoop,
} from "./workflows/steps/and-for-each.ts";
export type { InnerSteps, LastOutput, StepRow } from "./workflows/steps/inner.ts";
export { andMap, type Mapped, type MapOptions, type MapSource } from "./workflows/steps/and-map.ts";
export {
  andSleep,
  andSleepUntil,
  type SleepOptions,
  type SleepUntilOptions,
  type WaitOptions,
} from "./workflows/steps/and-sleep.ts";
export { andWaitFor, type WaitForOptions, type WaitForOutput } from "./workflows/steps/and-wait-for.ts";
export { andTap, type TapOptions as AndTapOptions } from "./workflows/steps/and-tap.ts";
export { andThen, type Returns as ThenReturn, type ThenOptions as AndThenOptions } from "./workflows/steps/and-then.ts";
export { andWhen, type WhenOptions as AndWhenOptions } from "./workflows/steps/and-when.ts";
export { andWorkflow, type WorkflowOptions as AndWorkflowOptions } from "./workflows/steps/and-workflow.ts";
export type {
  ContextWith as ThenContext,
  InputSchemaCheck,
  OwnType as FixedOutput,
  MaybeSchema,
  OutputOfStep,
  StepIn,
  StepOptions,
  StepSchemas,
  TypedStep,
} from "./workflows/steps/step.ts";
export type { Step } from "./engine/definition/definition.ts";
export type { StepShape, StepTraits } from "./engine/definition/step-traits.ts";
export type { StepContext } from "./engine/definition/step-context.ts";
export type { Agent, Prompt, WorkflowReference } from "./engine/definition/reference.ts";

// Schedules
export {
  defineSchedule,
  type DefineScheduleOptions,
  type ScheduleDefinition,
  type ScheduleInput,
  type ScheduleOptions,
  type ScheduleTick,
  type ScheduleTimes,
} from "./schedules/define.ts";

// Starting workflows and asking agents from code
export type {
  ActingAs,
  AgentId,
  Cancellation,
  ChildOptions,
  ConversationSummary,
  ConversationWithMessages,
  EventToSend,
  ExecutionFilter,
  ExecutionHandle,
  ExecutionOutcome,
  Executions,
  ExecutionView,
  ForkOptions,
  QuestionOptions,
  Registry,
  ResultOf,
  Runtime,
  RuntimeConversations,
  RuntimeUser,
  StartOf,
  StartOptions,
  StepRuntime,
  SystemRuntime,
  WorkflowId,
} from "./engine/runtime.ts";

// Schemas
export type { InputOf, OutputOf, Schema } from "./core/schema.ts";

// Errors and loggers
export { AgentError, ServeError, type ServeErrorOptions } from "./core/error.ts";
export type { Logger, LogLevel } from "./core/log.ts";
export type { HostLogger } from "./observability/log-output.ts";

// A server embedded in another program
export { createServer, type Server } from "./server/create.ts";
export type { ListeningServer } from "./server/network/listen.ts";
