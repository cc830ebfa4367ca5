import { existsSync, readdirSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { createJiti, type Jiti } from "jiti";
import type { WorkflowDefinition } from "../engine/definition.ts";
import { isWorkflow } from "../workflows/define.ts";
import { parseConfig, type ResolvedConfig } from "./define.ts";
import { loadEnv } from "./env.ts";
import { ConfigError } from "./error.ts";

/** A config, and what was found beside it. */
export interface Project {
  readonly config: ResolvedConfig;
  readonly workflows: readonly Found<WorkflowDefinition>[];
}
export interface Found<T> {
  readonly value: T;
  /** The file that it came from. */
  readonly origin: string;
}

/** The module that a project's files get when they import `agentserve`: the very one that serves them. */
export type OwnModule = Record<string, unknown>;

const names = ["agents.config.ts", "agents.config.mts", "agents.config.js", "agents.config.mjs"];

/** The config to serve: the one asked for, or the first of the usual names in a folder. */
export function findConfig(asked: string | undefined, folder: string): string {
  const candidates = asked ? [asked] : names;
  const file = candidates.map((name) => resolve(folder, name)).find((candidate) => existsSync(candidate));
  if (file) return file;
  throw new ConfigError(`${asked ?? names[0]} not found in ${folder}`, {
    hint: "run this in the folder of your agents.config.ts, or name it with --config <file>",
  });
}

export async function loadProject(file: string, own: OwnModule): Promise<Project> {
  const root = dirname(file);
  loadEnv(root);
  const jiti = createJiti(file, {
    interopDefault: false,
    virtualModules: { agentserve: own },
  });
  const module = await importFile(jiti, file, root);
  if (!("default" in module)) {
    throw new ConfigError(`${show(file)}: no default export`, {
      hint: "write: export default defineConfig({ … })",
    });
  }
  const config = parseConfig(module.default, show(file));
  return { config, workflows: [...named(config, show(file)), ...(await discover(jiti, root, config))] };
}

/** A config that was handed over as an object, without a file. */
export function toProject(config: unknown): Project {
  const resolved = parseConfig(config, "config");
  return { config: resolved, workflows: named(resolved, "config") };
}

const named = ({ workflows }: ResolvedConfig, origin: string): Found<WorkflowDefinition>[] =>
  workflows.map((value) => ({ value, origin }));

/** Every workflow that a file in `workflowsDir` exports, by whatever name. */
async function discover(jiti: Jiti, root: string, config: ResolvedConfig): Promise<Found<WorkflowDefinition>[]> {
  const folder = join(root, config.workflowsDir ?? "workflows");
  if (!existsSync(folder)) {
    if (config.workflowsDir === undefined) return [];
    throw new ConfigError(`workflowsDir: ${show(folder)} does not exist`);
  }
  const found: Found<WorkflowDefinition>[] = [];
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted()) {
    if (!isModule(name)) continue;
    const file = join(folder, name);
    const exports = Object.values(await importFile(jiti, file, root));
    for (const value of exports.filter(isWorkflow)) found.push({ value, origin: show(file) });
  }
  return found;
}

function isModule(name: string): boolean {
  const isCode = /\.m?[jt]s$/.test(name) && !/\.(d|test|spec)\.m?[jt]s$/.test(name);
  return (
    isCode && !name.split(sep).some((part) => part.startsWith(".") || part.startsWith("_") || part === "node_modules")
  );
}

async function importFile(jiti: Jiti, file: string, root: string): Promise<Record<string, unknown>> {
  try {
    return await jiti.import<Record<string, unknown>>(file);
  } catch (error) {
    throw toConfigError(error, file, root);
  }
}

/** What went wrong while a user's file was read or ran, with the place in their own code. */
function toConfigError(error: unknown, file: string, root: string): ConfigError {
  if (!(error instanceof Error)) {
    return new ConfigError(`${show(file)}: threw ${JSON.stringify(error)} while it was loaded`, { cause: error });
  }
  const [, problem, place, column] = /^ParseError: (.*?)\s*\n\s*(.+:\d+):(\d+)\s*$/s.exec(error.message) ?? [];
  if (place) {
    // Its columns begin at 0, those of editors and stacks at 1.
    return new ConfigError(`${show(place)}:${Number(column) + 1}: ${problem}`, { cause: error });
  }

  const [what = ""] = error.message.split("\n");
  if ("requireStack" in error && Array.isArray(error.requireStack)) {
    const missing = /^Cannot find module '(?<name>[^'./][^']*)'/.exec(what)?.groups?.["name"];
    const hint = missing && `npm install ${missing.split("/", missing.startsWith("@") ? 2 : 1).join("/")}`;
    return new ConfigError(`${show(error.requireStack[0] ?? file)}: ${what}`, { hint, cause: error });
  }
  return new ConfigError(`${show(ownFrame(error, root) ?? file)}: ${what}`, { cause: error });
}

/** The innermost `file:line:column` of a stack that is the user's own. */
function ownFrame(error: Error, root: string): string | undefined {
  for (const [, place = ""] of error.stack?.matchAll(/\(?((?:file:\/\/)?\/[^()\n]+:\d+:\d+)\)?$/gm) ?? []) {
    const path = place.replace("file://", "");
    if (path.startsWith(root + sep) && !path.includes(`${sep}node_modules${sep}`)) return path;
  }
  return undefined;
}

/** A path as a person at this terminal would write it. */
function show(path: string): string {
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short || basename(path);
}
