import { createRequire } from "node:module";
import { attempt } from "../../core/attempt.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import type { AgentDefinition } from "../define.ts";
import { missingSdk } from "../sdk.ts";
import { findSource, hasProvider } from "./find-model.ts";
import { findMissingVariables } from "./provider-keys.ts";

/** The reason why agents cannot answer. */
export interface ModelProblem {
  /** Undefined: no agent can answer. */
  readonly agentId?: string;
  readonly message: string;
  /** The package to install, the variable to set, or the way to name the model. */
  readonly hint: string;
}

/**
 * Finds agents whose model cannot answer, without calling it. Only a model that is named by a string is checked: an
 * object of a provider package does not say how it gets its key.
 */
export async function findModelProblems(agents: readonly AgentDefinition[], root: string): Promise<ModelProblem[]> {
  if (agents.length === 0) return [];
  if (!hasSdk()) return [missingSdk];
  const problems = await Promise.all(agents.map((agent) => findModelProblem(agent, root)));
  return problems.filter((problem) => problem !== undefined);
}

async function findModelProblem({ id, model }: AgentDefinition, root: string): Promise<ModelProblem | undefined> {
  if (typeof model !== "string") return undefined;
  const needs = (what: string): string => toVisible(`agent ${id}: the model ${model} needs ${what}`, { max: 200 });
  const source = findSource(model, root);
  if (source === "gateway") return undefined;
  const { packageName, provider, file } = source;
  if (file === undefined) {
    return {
      agentId: id,
      message: needs(`the package ${packageName}`),
      hint: toVisible(`npm install ${packageName}, or set AI_GATEWAY_API_KEY to use the AI gateway`, { max: 200 }),
    };
  }
  const missing = findMissingVariables(provider);
  if (missing.length === 0) {
    if (await hasProvider(source)) return undefined;
    const message = needs(`another name: ${packageName} exports no default provider`);
    return { agentId: id, message, hint: `create a provider with ${packageName}, and set model to a model of it` };
  }
  const names = missing.join(" and ");
  const unset = missing.length === 1 ? "which is not set" : "which are not set";
  return { agentId: id, message: needs(`${names}, ${unset}`), hint: `set ${names} in .env or in the environment` };
}

const hasSdk = (): boolean => attempt(() => createRequire(import.meta.url).resolve("ai")) !== undefined;
