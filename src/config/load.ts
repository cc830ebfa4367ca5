import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join, resolve, sep } from "node:path";
import { createJiti, type Jiti } from "jiti";
import { isAgent, type AgentDefinition } from "../agents/define.ts";
import type { WorkflowDefinition } from "../engine/definition.ts";
import { isWorkflow } from "../workflows/define.ts";
import { parseConfig, type ResolvedConfig } from "./define.ts";
import { loadEnv } from "./env.ts";
import { ConfigError } from "./error.ts";
import { show, toLoadError } from "./load-error.ts";

/** A config, and what was found beside it. */
export interface Project {
  /** The folder that relative paths of the config start from. */
  readonly root: string;
  readonly config: ResolvedConfig;
  readonly agents: readonly Found<AgentDefinition>[];
  readonly workflows: readonly Found<WorkflowDefinition>[];
}
export interface Found<T> {
  readonly value: T;
  /** The file that it came from. */
  readonly origin: string;
}

/** The modules that a project's files get when they import `agentserve`: the very ones that serve them. */
export type OwnModules = Record<string, Record<string, unknown>>;

const names = ["agents.config.ts", "agents.config.mts", "agents.config.js", "agents.config.mjs"];

/** Whether a folder has a config of one of the usual names. */
export const hasConfig = (folder: string): boolean => names.some((name) => existsSync(join(folder, name)));

/** The config to serve: the file asked for, or the first of the usual names in the folder asked for, or in this one. */
export function findConfig(asked: string | undefined, folder: string): string {
  const place = resolve(folder, asked ?? "");
  if (isFolder(place)) {
    const file = names.map((name) => join(place, name)).find((candidate) => existsSync(candidate));
    if (file) return file;
  } else if (existsSync(place)) return place;
  throw new ConfigError(isFolder(place) ? `${names[0]} not found in ${place}` : `${asked} not found in ${folder}`, {
    hint: "run this in the folder of your agents.config.ts, or name it with --config <file>",
  });
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

export async function loadProject(file: string, own: OwnModules): Promise<Project> {
  const root = dirname(file);
  loadEnv(root);
  const jiti = createJiti(file, {
    interopDefault: false,
    virtualModules: own,
  });
  const module = await importFile(jiti, file, root);
  if (!("default" in module)) {
    throw new ConfigError(`${show(file)}: no default export`, {
      hint: "write: export default defineConfig({ … })",
    });
  }
  const config = parseConfig(await module.default, show(file));
  const agents = await discover(jiti, root, "agents", config.agentsDir);
  const workflows = await discover(jiti, root, "workflows", config.workflowsDir);
  return toFound(root, config, show(file), [...agents, ...workflows]);
}

/** A config that was handed over as an object, without a file. */
export function toProject(config: unknown): Project {
  const resolved = parseConfig(config, "config");
  for (const what of ["agents", "workflows"] as const) {
    if (resolved[`${what}Dir`] === undefined) continue;
    throw new ConfigError(`config: ${what}Dir belongs to a config file`, {
      hint: `import them and list them in ${what}`,
    });
  }
  return toFound(process.cwd(), resolved, "config", []);
}

/** What the config lists, and what files export: an agent may stand in any of them, and so may a workflow. */
function toFound(root: string, config: ResolvedConfig, origin: string, exported: Found<unknown>[]): Project {
  const listed = [...config.agents, ...config.workflows].map((value): Found<unknown> => ({ value, origin }));
  const all = [...listed, ...exported];
  const isA = <T>(is: (value: unknown) => value is T): Found<T>[] =>
    all.filter((one): one is Found<T> => is(one.value));
  return { root, config, agents: isA(isAgent), workflows: isA(isWorkflow) };
}

/** Everything that a file in a folder exports, by whatever name. */
async function discover(jiti: Jiti, root: string, what: string, asked: string | undefined): Promise<Found<unknown>[]> {
  const folder = resolve(root, asked ?? what);
  if (!isFolder(folder)) {
    if (asked === undefined) return [];
    throw new ConfigError(`${what}Dir: ${show(folder)} is not a folder`);
  }
  const found: Found<unknown>[] = [];
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted()) {
    if (!isModule(name)) continue;
    const file = join(folder, name);
    const exports = Object.values(await importFile(jiti, file, root));
    for (const value of exports) found.push({ value, origin: show(file) });
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
    throw toLoadError(error, file, root);
  }
}
