// Models that need no key
export { echoModel, type EchoModelOptions } from "./agents/models/echo.ts";
export type { PlainAnswer } from "./agents/models/create-model.ts";
export { scriptedModel, type ScriptedAnswer, type ScriptedModel, type ScriptedStep } from "./agents/models/scripted.ts";
