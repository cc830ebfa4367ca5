import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";
import { isAgent, type AgentDefinition } from "../agents/define.ts";
import type { WorkflowDefinition } from "../engine/definition.ts";
import { isWorkflow } from "../workflows/define.ts";
import { parseConfig, type ResolvedConfig } from "./define.ts";
import { createEnv } from "./env.ts";
import { ConfigError } from "./error.ts";
import { show } from "./load-error.ts";
import { createModules, type Modules, type OwnModules } from "./modules.ts";

/** A config, and what was found beside it. */
export interface Project {
  /** The folder that relative paths of the config start from. */
  readonly root: string;
  readonly config: ResolvedConfig;
  readonly agents: readonly ProjectEntry<AgentDefinition>[];
  readonly workflows: readonly ProjectEntry<WorkflowDefinition>[];
}
export interface ProjectEntry<T> {
  readonly value: T;
  /** The file that it came from. */
  readonly origin: string;
}

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

export const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** A project's files, to be loaded as often as they change. */
export interface Loader {
  readonly file: string;
  /** Reads everything anew, `.env` too. */
  load(): Promise<Project>;
  /** When the last load began, in milliseconds since 1970. */
  beganAt(): number;
  /** The project's own files that the last load has read. */
  files(): string[];
  /** The folders that the last config which could be read looks for agents and workflows in. */
  folders(): string[];
}

export function createLoader(asked: string, own: OwnModules): Loader {
  const root = realpathSync(dirname(asked)); // as stacks and caches know it
  const file = join(root, basename(asked));
  const readEnv = createEnv(root);
  const modules = createModules(file, own);
  let folders = whats.map((what) => join(root, what));
  let beganAt = 0;
  let loads = 0;
  return { file, load, beganAt: () => beganAt, files: modules.files, folders: () => folders };

  async function load(): Promise<Project> {
    beganAt = Date.now();
    const number = ++loads;
    readEnv();
    modules.forget();
    const module = await modules.import(file);
    if (!("default" in module)) {
      throw new ConfigError(`${show(file)}: no default export`, {
        hint: "write: export default defineConfig({ … })",
      });
    }
    const config = parseConfig(await module["default"], show(file), file);
    if (number === loads) folders = whats.map((what) => resolve(root, config[`${what}Dir`] ?? what));
    try {
      const found: ProjectEntry<unknown>[] = [];
      for (const what of whats) found.push(...(await discover(modules, root, what, config[`${what}Dir`])));
      return createProject(root, config, show(file), found);
    } catch (error) {
      void dispose(config); // it may take its time
      throw error;
    }
  }
}

/** Of a config that nobody will ever use: what its file has opened is closed. */
export async function dispose({ onDispose }: ResolvedConfig): Promise<void> {
  try {
    await onDispose?.();
  } catch {
    // What kept it from being used is what its author wants to hear.
  }
}

const whats = ["agents", "workflows"] as const;

/** A config that was handed over as an object, without a file. */
export function toProject(config: unknown): Project {
  const resolved = parseConfig(config, "config");
  for (const what of whats) {
    if (resolved[`${what}Dir`] === undefined) continue;
    throw new ConfigError(`config: ${what}Dir belongs to a config file`, {
      hint: `import them and list them in ${what}`,
    });
  }
  return createProject(process.cwd(), resolved, "config", []);
}

/** What the config lists, and what files export: an agent may stand in any of them, and so may a workflow. */
function createProject(
  root: string,
  config: ResolvedConfig,
  origin: string,
  exported: ProjectEntry<unknown>[],
): Project {
  const listed = [...config.agents, ...config.workflows].map((value): ProjectEntry<unknown> => ({ value, origin }));
  const all = [...listed, ...exported];
  const isA = <T>(is: (value: unknown) => value is T): ProjectEntry<T>[] =>
    all.filter((one): one is ProjectEntry<T> => is(one.value));
  return { root, config, agents: isA(isAgent), workflows: isA(isWorkflow) };
}

/** Everything that a file in a folder exports, by whatever name. */
async function discover(
  modules: Modules,
  root: string,
  what: string,
  asked: string | undefined,
): Promise<ProjectEntry<unknown>[]> {
  const folder = resolve(root, asked ?? what);
  if (!isFolder(folder)) {
    if (asked === undefined) return [];
    throw new ConfigError(`${what}Dir: ${show(folder)} is not a folder`);
  }
  const found: ProjectEntry<unknown>[] = [];
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted()) {
    if (!isModule(name)) continue;
    const file = join(folder, name);
    const exports = Object.values(await modules.import(file));
    for (const value of exports) found.push({ value, origin: show(file) });
  }
  return found;
}

/** Whether a file in one of the folders is looked into. */
export function isModule(name: string): boolean {
  const isCode = /\.m?[jt]s$/.test(name) && !/\.(d|test|spec)\.m?[jt]s$/.test(name);
  return (
    isCode && !name.split(sep).some((part) => part.startsWith(".") || part.startsWith("_") || part === "node_modules")
  );
}
