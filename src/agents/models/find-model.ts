import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { LanguageModel } from "ai";
import { attempt } from "../../core/attempt.ts";
import type { Sdk } from "../sdk.ts";

/**
 * Returns the model for a `"provider/model"` name: from `@ai-sdk/<provider>` if the project has it, otherwise from the
 * AI Gateway if its key is set.
 */
export async function findModel(sdk: Sdk, name: string, root: string): Promise<Exclude<LanguageModel, string>> {
  const [, provider = "", modelId = ""] = /^([^/]+)\/(.+)$/.exec(name) ?? [];
  const source = findSource(name, root);
  if (source === "gateway") return sdk.gateway.languageModel(name);
  const { packageName, file } = source;
  if (file === undefined) {
    // Node remembers that it did not find a package, so a running server does not see one that is installed later.
    throw new Error(
      `model "${name}": run "npm install ${packageName}" and set the API key of ${provider}, or set AI_GATEWAY_API_KEY; then restart the server`,
    );
  }
  const module = await import(pathToFileURL(file).href);
  return toProvider(module, provider, packageName).languageModel(modelId);
}

/** Returns false if a package exports no provider by which a model is found. True if it cannot be loaded: a call says why. */
export async function hasProvider({ provider, packageName, file = "" }: ProviderPackage): Promise<boolean> {
  const module = await import(pathToFileURL(file).href).catch(() => undefined);
  return module === undefined || attempt(() => toProvider(module, provider, packageName)) !== undefined;
}

/** The package of a provider. `file` is undefined if the project does not have it. */
interface ProviderPackage {
  readonly provider: string;
  readonly packageName: string;
  readonly file: string | undefined;
}

/** Finds the source of a model named by a string. */
export function findSource(name: string, root: string): ProviderPackage | "gateway" {
  const [provider = ""] = name.split("/");
  const packageName = `@ai-sdk/${provider}`;
  const file = resolve(packageName, root);
  const hasGateway = process.env["AI_GATEWAY_API_KEY"] || process.env["VERCEL_OIDC_TOKEN"];
  return file === undefined && hasGateway ? "gateway" : { provider, packageName, file };
}

/** Returns the file of a package, or undefined if it is not installed or the name is not valid. */
const resolve = (packageName: string, root: string): string | undefined =>
  attempt(() => createRequire(join(root, "agents.config.ts")).resolve(packageName));

interface Provider {
  languageModel(modelId: string): Exclude<LanguageModel, string>;
}

/**
 * Returns the provider that a package exports: `openai` from `@ai-sdk/openai`. A few packages export a shorter name
 * than their own, so every export is tried.
 */
function toProvider(module: Record<string, unknown>, provider: string, packageName: string): Provider {
  const camelCase = provider.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
  const found = [module[camelCase], ...Object.values(module)].find(isProvider);
  if (!found) throw new Error(`${packageName} does not export a language model provider`);
  return found;
}

const isProvider = (value: unknown): value is Provider =>
  (typeof value === "object" || typeof value === "function") &&
  value !== null &&
  typeof (value as Partial<Provider>).languageModel === "function";
