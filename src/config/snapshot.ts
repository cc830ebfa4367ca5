import { resolve } from "node:path";
import { createTurnProgram, type TurnProgramOptions } from "../agents/turns/turn-program.ts";
import { describeAgent } from "../agents/describe.ts";
import type { RegisteredAgent } from "../agents/find-agent.ts";
import { findMissingTarget } from "../agents/tools/check-tools.ts";
import { createPolicy, type Policy } from "../auth/policy.ts";
import type { AccessOptions } from "../auth/provider.ts";
import { createAuthorizer, type Authorizer } from "../core/access/authorizer.ts";
import type { Logger } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { Tracer } from "../core/trace.ts";
import type { AskAgent } from "../engine/definition/step-context.ts";
import type { StepCaller, StepRuntime } from "../engine/runtime.ts";
import type { OnFailure } from "../engine/attempts/failures.ts";
import { createProgram } from "../engine/attempts/live-walk.ts";
import type { ScheduleDefinition } from "../schedules/define.ts";
import type { RegisteredWorkflow } from "../workflows/find.ts";
import { describeResult, describeWorkflow } from "../workflows/describe.ts";
import type { ResolvedConfig } from "./define.ts";
import { ConfigError } from "./error.ts";
import { findId } from "./frame.ts";
import type { ProjectEntry, Project } from "./load.ts";

/**
 * One immutable version of the config. Its users hold it: requests, streams and sockets end on the version that they started
 * with, also after a reload.
 */
export interface Snapshot {
  readonly config: ResolvedConfig;
  readonly agents: ReadonlyMap<string, RegisteredAgent>;
  readonly workflows: ReadonlyMap<string, RegisteredWorkflow>;
  readonly schedules: ReadonlyMap<string, ScheduleDefinition>;
  /** Asks `authorize`. Undefined if the config, its workflows and its agents have none. */
  readonly authorizer: Authorizer | undefined;
  /** The access policy. Undefined without an authentication provider. */
  readonly policy: Policy | undefined;
  /** The built-in routes that this version does not serve, such as `GET /health`. */
  readonly replaced: ReadonlySet<string>;
  /** The routes of `configureApp`. */
  readonly customRoutes: readonly CustomRoute[];
  /** Keeps this version in use. Returns a function that releases it. A second call of that function has no effect. */
  hold(by: Holder): () => void;
  /** Returns the number of holders by type. */
  holders(): ReadonlyMap<Holder, number>;
  /** Aborted when this version retires: streams that ask it end, and their readers open them again under the next one. */
  readonly retiring: AbortSignal;
  /** Retires this version. Resolves when the last holder has released it and `onDispose` has run. */
  retire(): Promise<void>;
}

export type Holder = "request" | "socket" | "execution";

export interface SnapshotParts {
  readonly logger: Logger;
  readonly tracer: Tracer;
  readonly metrics?: Metrics | undefined;
  /** Calls an agent from a step. */
  readonly ask: AskAgent;
  /** Called with each failed attempt of a step. */
  readonly onFailure?: OnFailure | undefined;
  /** Runs a turn of a stored conversation. */
  readonly runTurn: TurnProgramOptions["run"];
  /** Creates the runtime of a step. */
  readonly createRuntime: (caller: StepCaller, snapshot: Snapshot) => StepRuntime;
  /** The entries that `publicRoutes` begins with. @default [] */
  readonly open?: readonly string[];
  /** The built-in routes that are not served. @default none */
  readonly replaced?: ReadonlySet<string>;
  /** The routes of `configureApp`. @default [] */
  readonly customRoutes?: readonly CustomRoute[];
}

/** A route of `configureApp`: its pattern, and its method or, for every method, an empty string. */
export interface CustomRoute {
  readonly method: string;
  readonly path: string;
  /** False if `meta: { doc: false }` keeps the route out of `/doc`. */
  readonly isDocumented: boolean;
}

export function createSnapshot(project: Project, parts: SnapshotParts): Snapshot {
  const { config } = project;
  const { logger, open = [], replaced = new Set(), customRoutes = [] } = parts;
  const holders = new Holders(config, logger);
  const use: SnapshotUse = { ...parts, config, current: () => snapshot, hold: () => holders.hold("execution") };
  const workflows = registerWorkflows(project, use);
  const agents = registerAgents(project, use, workflows);
  checkTools(project, workflows, agents);
  checkSchedules(project, workflows);
  const snapshot: Snapshot = {
    config,
    agents,
    workflows,
    schedules: new Map(unique(project.schedules, "schedules").map((one) => [one.id, one])),
    authorizer: createAuthorizer({
      authorize: config.authorize,
      workflows: [...workflows.values()].map(({ definition }) => definition),
      agents: [...agents.values()].map(({ definition }) => definition),
      logger,
    }),
    policy: config.auth && toPolicy(config.auth, open),
    replaced,
    customRoutes,
    hold: (by) => holders.hold(by),
    holders: () => holders.counts,
    retiring: holders.retiring.signal,
    retire: () => holders.retire(),
  };
  return snapshot;
}

/** The parts of a snapshot, for the programs of its workflows and agents. */
interface SnapshotUse extends SnapshotParts {
  readonly config: ResolvedConfig;
  readonly current: () => Snapshot;
  /** Keeps the version in use: an execution ends on the code that it started with. */
  readonly hold: () => () => void;
}

function registerWorkflows(project: Project, use: SnapshotUse): ReadonlyMap<string, RegisteredWorkflow> {
  const { config, current, hold, createRuntime, logger, tracer, metrics, ask, onFailure } = use;
  const warn = (message: string): void => logger.warn(message);
  const workflows = new Map<string, RegisteredWorkflow>();
  for (const definition of unique(project.workflows, "workflows")) {
    const detail = describeWorkflow(definition, warn);
    const program = createProgram({
      ...config.server.limits,
      workflow: definition,
      logger,
      tracer,
      metrics,
      ask,
      onFailure,
      createRuntime: (caller) => createRuntime(caller, current()),
      hold,
    });
    workflows.set(definition.id, { definition, detail, resultSchema: describeResult(definition, warn), ...program });
  }
  return workflows;
}

function registerAgents(
  project: Project,
  { config, current, hold, createRuntime, logger, runTurn }: SnapshotUse,
  workflows: ReadonlyMap<string, RegisteredWorkflow>,
): ReadonlyMap<string, RegisteredAgent> {
  const warn = (message: string): void => logger.warn(message);
  const findWorkflow = (id: string) => workflows.get(id)?.definition;
  const agents = new Map<string, RegisteredAgent>();
  for (const definition of unique(project.agents, "agents")) {
    const program = createTurnProgram({
      ...config.server.limits,
      agent: definition,
      logger,
      createRuntime: (caller) => createRuntime(caller, current()),
      hold,
      run: runTurn,
    });
    agents.set(definition.id, { definition, detail: describeAgent(definition, { warn, findWorkflow }), program });
  }
  return agents;
}

/** The holders of one config version, and its end. */
class Holders {
  readonly counts = new Map<Holder, number>();
  readonly retiring = new AbortController();
  readonly #config: ResolvedConfig;
  readonly #logger: Logger;
  readonly #free = Promise.withResolvers<void>();
  #retired: Promise<void> | undefined;

  constructor(config: ResolvedConfig, logger: Logger) {
    this.#config = config;
    this.#logger = logger;
  }

  hold(by: Holder): () => void {
    this.#add(by, 1);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#add(by, -1);
      if (this.#retired) this.#freeIfUnused();
    };
  }

  retire(): Promise<void> {
    this.retiring.abort();
    this.#retired ??= this.#free.promise.then(() => this.#dispose());
    this.#freeIfUnused();
    return this.#retired;
  }

  #add(by: Holder, change: number): void {
    const count = (this.counts.get(by) ?? 0) + change;
    if (count === 0) this.counts.delete(by);
    else this.counts.set(by, count);
  }

  #freeIfUnused(): void {
    if (this.counts.size === 0) this.#free.resolve();
  }

  async #dispose(): Promise<void> {
    try {
      await this.#config.onDispose?.();
    } catch (error) {
      this.#logger.error("onDispose failed", { error });
    }
  }
}

/** Does work on a config version, and holds it for that time. */
export async function withVersion<T>(version: Snapshot, work: (version: Snapshot) => Promise<T>): Promise<T> {
  const release = version.hold("request");
  try {
    return await work(version);
  } finally {
    release();
  }
}

/** Reads the options one by one: a provider may be a class instance. */
function toPolicy({ defaultPrivate, publicRoutes = [], protect, webSockets }: AccessOptions, open: readonly string[]) {
  return createPolicy({ defaultPrivate, protect, webSockets, publicRoutes: [...open, ...publicRoutes] });
}

/** Refuses a schedule whose workflow is not served. */
function checkSchedules({ schedules }: Project, workflows: ReadonlyMap<string, unknown>): void {
  for (const { value, origin } of schedules) {
    const { id, workflowId } = value;
    if (workflows.has(workflowId)) continue;
    throw new ConfigError(`${origin}: schedule ${id}: there is no workflow ${workflowId}`, {
      hint: "export it from a file in workflows/, or list it in the config",
      place: findId(resolve(origin), id),
    });
  }
}

/** Refuses a tool whose workflow or agent is not served. */
function checkTools(
  { agents: found }: Project,
  workflows: ReadonlyMap<string, unknown>,
  agents: ReadonlyMap<string, unknown>,
): void {
  const served = { hasWorkflow: (id: string) => workflows.has(id), hasAgent: (id: string) => agents.has(id) };
  for (const { value, origin } of found) {
    const missing = typeof value.tools !== "function" && findMissingTarget(value.tools, served);
    if (!missing) continue;
    const { tool, target } = missing;
    throw new ConfigError(`${origin}: agent ${value.id}: tool ${tool}: there is no ${target}`, {
      hint: `export it from a file in ${target.split(" ")[0]}s/, or list it in the config`,
      place: findId(resolve(origin), value.id),
    });
  }
}

/** Removes duplicates of the same object. Two objects with the same id are an error that names both places. */
function unique<T extends { id: string }>(found: readonly ProjectEntry<T>[], what: string): T[] {
  const byId = new Map<string, ProjectEntry<T>>();
  for (const one of found) {
    const other = byId.get(one.value.id);
    if (other && other.value !== one.value) {
      const places = one.origin === other.origin ? `both in ${one.origin}` : `in ${other.origin} and in ${one.origin}`;
      throw new ConfigError(`Two ${what} have the id ${one.value.id}: ${places}`, {
        place: findId(resolve(one.origin), one.value.id),
      });
    }
    byId.set(one.value.id, other ?? one);
  }
  return [...byId.values()].map(({ value }) => value);
}
