// The config
export { defineConfig, type Config, type ServerOptions } from "./config/define.ts";
export type { Limits } from "./config/limits.ts";
export { embedded, type EmbeddedBackendOptions } from "./backends/embedded/define.ts";
export type { CorsOptions } from "./http/cors.ts";

// Who may call what
export { createToken, jwtAuth, type CreateTokenOptions, type JwtAuthOptions } from "./auth/jwt.ts";
export type { AccessOptions, AuthProvider } from "./auth/provider.ts";

// Agents
export { defineAgent, type AgentDefinition, type AgentHooks, type DefineAgentOptions } from "./agents/define.ts";
export { defineTool, type DefineToolOptions, type Tool, type ToolExecution } from "./agents/tool.ts";
export type { AgentContext } from "./agents/context.ts";

// Workflows
export { defineWorkflow, type DefineWorkflowOptions, type Workflow } from "./workflows/define.ts";
export { andAgent } from "./workflows/steps/and-agent.ts";
export { andAll } from "./workflows/steps/and-all.ts";
export { andRace } from "./workflows/steps/and-race.ts";
export { andTap } from "./workflows/steps/and-tap.ts";
export { andThen } from "./workflows/steps/and-then.ts";
export { andWhen } from "./workflows/steps/and-when.ts";
export { andWorkflow } from "./workflows/steps/and-workflow.ts";
export type { StepContext } from "./engine/step-context.ts";
export type { Retry } from "./engine/definition.ts";

// Errors that reach the client, and loggers
export { ServeError, type ServeErrorOptions } from "./core/error.ts";
export type { Logger } from "./core/log.ts";

// A server inside another program
export { createServer, type Server } from "./server/create.ts";
