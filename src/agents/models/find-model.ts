import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { LanguageModel } from "ai";
import { attempt } from "../../core/attempt.ts";
import type { Sdk } from "../sdk.ts";

/**
 * The model behind `"provider/model"`: from `@ai-sdk/<provider>` if the project has it, else through the AI gateway if its
 * key is set.
 */
export async function findModel(sdk: Sdk, name: string, root: string): Promise<Exclude<LanguageModel, string>> {
  const [, provider = "", modelId = ""] = /^([^/]+)\/(.+)$/.exec(name) ?? [];
  const source = findSource(name, root);
  if (source === "gateway") return sdk.gateway.languageModel(name);
  const module = await import(pathToFileURL(source.file).href);
  return toProvider(module, provider, source.packageName).languageModel(modelId);
}

/** Where a model named by text comes from; throws what to do when it comes from nowhere. */
export function findSource(name: string, root: string): { packageName: string; file: string } | "gateway" {
  const [provider = ""] = name.split("/");
  const packageName = `@ai-sdk/${provider}`;
  const file = resolve(packageName, root);
  if (file) return { packageName, file };
  if (process.env["AI_GATEWAY_API_KEY"] || process.env["VERCEL_OIDC_TOKEN"]) return "gateway";
  throw new Error(
    `model "${name}": run "npm install ${packageName}" and set the key of ${provider}, or set AI_GATEWAY_API_KEY`,
  );
}

/** The file of a package; undefined when it is not installed, or when this is not the name of a package. */
const resolve = (packageName: string, root: string): string | undefined =>
  attempt(() => createRequire(join(root, "agents.config.ts")).resolve(packageName));

interface Provider {
  languageModel(modelId: string): Exclude<LanguageModel, string>;
}

/** `@ai-sdk/openai` exports `openai`; a few providers have a shorter name than their package. */
function toProvider(module: Record<string, unknown>, provider: string, packageName: string): Provider {
  const camelCase = provider.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
  const found = [module[camelCase], ...Object.values(module)].find(isProvider);
  if (!found) throw new Error(`${packageName} exports no provider of language models`);
  return found;
}

const isProvider = (value: unknown): value is Provider =>
  (typeof value === "object" || typeof value === "function") &&
  value !== null &&
  typeof (value as Partial<Provider>).languageModel === "function";
