import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";
import { isAgent, type AgentDefinition } from "../agents/define.ts";
import { findWrongSdk } from "../agents/sdk.ts";
import type { WorkflowDefinition } from "../engine/definition/definition.ts";
import { isSchedule, type ScheduleDefinition } from "../schedules/define.ts";
import { isWorkflow } from "../workflows/define.ts";
import type { ResolvedConfig } from "./define.ts";
import { createEnv } from "./env.ts";
import { ConfigError } from "./error.ts";
import { findId } from "./frame.ts";
import { show } from "./load-error.ts";
import { noProvider, parseConfig } from "./parse.ts";
import { createModules, type Modules, type OwnModules } from "./modules.ts";

/** A config, with the agents, workflows and schedules of its project. */
export interface Project {
  /** The folder to which the paths of the config are relative. */
  readonly root: string;
  readonly config: ResolvedConfig;
  readonly agents: readonly ProjectEntry<AgentDefinition>[];
  readonly workflows: readonly ProjectEntry<WorkflowDefinition>[];
  readonly schedules: readonly ProjectEntry<ScheduleDefinition>[];
}
export interface ProjectEntry<T> {
  readonly value: T;
  /** The file that defines it, as it is shown. */
  readonly origin: string;
  /** The file that exports it, and the export name. Undefined if only the config lists it. */
  readonly exported?: { readonly file: string; readonly name: string } | undefined;
}

const names = ["agents.config.ts", "agents.config.mts", "agents.config.js", "agents.config.mjs"];

/** Returns true if a folder has a config with one of the default names. */
export const hasConfig = (folder: string): boolean => names.some((name) => existsSync(join(folder, name)));

/** Finds the config: the given file, or the first of the default names in the given folder or in the current one. */
export function findConfig(asked: string | undefined, folder: string): string {
  const place = resolve(folder, asked ?? "");
  if (isFolder(place)) {
    const file = names.map((name) => join(place, name)).find((candidate) => existsSync(candidate));
    if (file) return file;
  } else if (existsSync(place)) return place;
  throw new ConfigError(isFolder(place) ? `${names[0]} not found in ${place}` : `${asked} not found in ${folder}`, {
    hint: "run this command next to agents.config.ts, pass --config <file>, or create a project: npx agentserve init",
  });
}

export const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** Loads the files of a project, as often as they change. */
export interface Loader {
  readonly file: string;
  /** Reads all files again, including `.env`. */
  load(): Promise<Project>;
  /** The start of the last load, in milliseconds since 1970. */
  beganAt(): number;
  /** The project's own files that the last load has read. */
  files(): string[];
  /** The folders of agents, workflows and schedules, from the last config that was valid. */
  folders(): string[];
}

export function createLoader(asked: string, own: OwnModules): Loader {
  const root = realpathSync(dirname(asked)); // stacks and caches have real paths
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
        hint: "add: export default defineConfig({ … })",
      });
    }
    const config = parseConfig(await module["default"], show(file), file);
    if (number === loads) folders = whats.map((what) => resolve(root, config[`${what}Dir`] ?? what));
    try {
      const found: ProjectEntry<unknown>[] = [];
      for (const what of whats) found.push(...(await discover(modules, root, what, config[`${what}Dir`])));
      return createProject(root, config, show(file), found);
    } catch (error) {
      void dispose(config); // not awaited: it may be slow
      throw error;
    }
  }
}

/** Disposes of a config that will never be used. */
export async function dispose({ onDispose }: ResolvedConfig): Promise<void> {
  try {
    await onDispose?.();
  } catch {
    // Ignored: the author gets the error that kept the config from being used.
  }
}

const whats = ["agents", "workflows", "schedules"] as const;

/** Creates a project from a config object, without a file. */
export function toProject(config: unknown): Project {
  const resolved = parseConfig(config, "config");
  for (const what of whats) {
    if (resolved[`${what}Dir`] === undefined) continue;
    throw new ConfigError(`config: ${what}Dir works only in a config file`, {
      hint: `import the ${what} and list them in config.${what}`,
    });
  }
  return createProject(process.cwd(), resolved, "config", []);
}

/** Combines the config's lists with the exports of files. Any file may export any of them. */
function createProject(
  root: string,
  config: ResolvedConfig,
  origin: string,
  exported: ProjectEntry<unknown>[],
): Project {
  const values = whats.flatMap((what): readonly unknown[] => config[what]);
  const listed = values.map((value): ProjectEntry<unknown> => ({ value, origin }));
  const all = [...listed, ...exported];
  const isA = <T>(is: (value: unknown) => value is T): ProjectEntry<T>[] =>
    all.filter((one): one is ProjectEntry<T> => is(one.value));
  const project = { root, config, agents: isA(isAgent), workflows: isA(isWorkflow), schedules: isA(isSchedule) };
  if (!config.auth) checkUnguarded(project);
  const wrong = project.agents.length > 0 ? findWrongSdk() : undefined;
  if (wrong) throw new ConfigError(wrong.message, wrong);
  return project;
}

/** Refuses a workflow or agent with an `authorize` in a project without a provider: every caller would be anonymous. */
function checkUnguarded({ agents, workflows }: Pick<Project, "agents" | "workflows">): void {
  for (const [what, entries] of Object.entries({ agent: agents, workflow: workflows })) {
    const one = entries.find(({ value }) => value.authorize !== undefined);
    if (!one) continue;
    const { origin, value } = one;
    throw new ConfigError(`${origin}: ${what} ${value.id}: authorize: ${noProvider}`, {
      place: findId(resolve(origin), value.id),
    });
  }
}

/** Returns every export of every file in a folder. */
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
    const exports = Object.entries(await modules.import(file));
    for (const [own, value] of exports) found.push({ value, origin: show(file), exported: { file, name: own } });
  }
  return found;
}

/** Returns true for a file that is loaded from a folder of agents, workflows or schedules. */
export function isModule(name: string): boolean {
  const isCode = /\.m?[jt]s$/.test(name) && !/\.(d|test|spec)\.m?[jt]s$/.test(name);
  return (
    isCode && !name.split(sep).some((part) => part.startsWith(".") || part.startsWith("_") || part === "node_modules")
  );
}
