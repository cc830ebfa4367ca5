import { issuerOf } from "../../auth/oidc/provider.ts";
import { within } from "../../core/clock.ts";
import { openServer, type OpenServer } from "../../server/create.ts";
import type { AgentDefinition } from "../../agents/define.ts";
import { embedded } from "../../backends/embedded/define.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import { findSource } from "../../agents/models/find-model.ts";
import { findModelProblems } from "../../agents/models/model-problems.ts";
import { show } from "../../config/load-error.ts";
import { dispose, type Project } from "../../config/load.ts";
import { findRisks } from "../../server/risks.ts";
import { disposeMs, loadVisibly, openLoader } from "./open.ts";
import { countRoutes, toIssuerText } from "./routes.ts";
import { counted } from "../serve/announcer.ts";
import { findIgnoredData, refuseData, toSettings } from "../serve/serving.ts";

export interface Finding {
  readonly name: "node" | "config" | "model" | "auth" | "keys" | "store" | "routes" | "risk" | "start" | "memory";
  readonly status: "ok" | "warning" | "failed";
  readonly message: string;
  readonly hint?: string | undefined;
}
export interface Examination {
  readonly findings: readonly Finding[];
  /** The time from process start to the first response, in milliseconds. */
  readonly startMs?: number | undefined;
  /** The resident memory of this process with that server, in bytes. */
  readonly memory: number;
}

/**
 * Runs every step of a start and reports the results. The configured backend is inspected, never opened: opening it may
 * create files, and a shared one would route production requests to this process. The server uses an in-memory store.
 */
export async function examine(flags: { config?: string; data?: string }): Promise<Examination> {
  const findings: Finding[] = [{ name: "node", status: "ok", message: process.versions.node }];
  const add = (name: Finding["name"], message: string): void => void findings.push({ name, status: "ok", message });
  let startMs: number | undefined;
  try {
    const loader = openLoader(flags.config);
    const project = await loadVisibly(loader);
    const found = `${counted(project.agents.length, "agent")}, ${counted(project.workflows.length, "workflow")}`;
    add("config", `${show(loader.file)}: ${found}`);
    findings.push(
      ...(await examineModels(project)),
      await examineStore(project, flags.data),
      ...(await examineIssuer(project)),
    );
    add("keys", `${findKeys().join(", ") || "none"} ${noValues}`);
    startMs = await examineServer(project, findings);
    if (startMs !== undefined) add("start", `first response ${Math.round(startMs)} ms after this process started`);
  } catch (error) {
    findings.push(toFailure("config", error));
  }
  const memory = process.memoryUsage.rss();
  add("memory", `${toMegabytes(memory)} resident`);
  return { findings, startMs, memory };
}

const noValues = "(names only, from the environment and .env)";

/** Checks the models without a call. */
async function examineModels({ agents, root }: Project): Promise<Finding[]> {
  const all = agents.map(({ value }) => value);
  const problems = await findModelProblems(all, root);
  const isReady = ({ id }: AgentDefinition): boolean =>
    problems.every(({ agentId }) => agentId !== undefined && agentId !== id);
  return [
    ...problems.map(({ message, hint }): Finding => ({ name: "model", status: "failed", message, hint })),
    ...all.filter(isReady).map(({ id, model }): Finding => {
      const message = toVisible(`agent ${id}: ${toSourceName(model, root)}`, { max: 200 });
      return { name: "model", status: "ok", message };
    }),
  ];
}

function toSourceName(model: AgentDefinition["model"], root: string): string {
  if (typeof model !== "string") return `${model.provider}/${model.modelId}`;
  const source = findSource(model, root);
  return `${model} from ${source === "gateway" ? "the AI gateway" : source.packageName}`;
}

async function examineStore(project: Project, data: string | undefined): Promise<Finding> {
  const flags = data === undefined ? {} : { data };
  const { backend } = project.config;
  try {
    refuseData(flags, project);
    const { file } = toSettings(flags, project);
    const store = await backend.inspect?.({ root: project.root, file });
    if (!store) return { name: "store", status: "ok", message: backend.type };
    const executions = Object.entries(store.executions).map(([status, count]) => `${count} ${status}`);
    const facts = [
      URL.canParse(store.place) ? toVisible(store.place) : show(store.place),
      ...store.facts,
      ...(executions.length > 0 ? [`executions: ${executions.join(", ")}`] : []),
      ...(store.isInUse ? ["in use by a running server"] : []),
    ];
    return { name: "store", status: "ok", message: facts.join("  ·  ") };
  } catch (error) {
    return toFailure("store", error);
  }
}

/** Reads the keys of the issuer, as the first request with a token would. */
async function examineIssuer({ config }: Project): Promise<Finding[]> {
  const issuer = issuerOf(config.auth);
  if (!issuer) return [];
  try {
    const count = await issuer.countKeys();
    const message = `${toIssuerText(issuer)}  ·  ${counted(count, "key")}`;
    if (count > 0) return [{ name: "auth", status: "ok", message }];
    return [
      { name: "auth", status: "failed", message, hint: "the issuer publishes no public key: no token is accepted" },
    ];
  } catch (error) {
    const hint = "until the issuer answers, protected routes answer 503";
    return [{ ...toFailure("auth", error), hint }];
  }
}

async function examineServer(project: Project, findings: Finding[]): Promise<number | undefined> {
  const config = { ...project.config, backend: embedded({ path: ":memory:" }) };
  let server: OpenServer | undefined;
  try {
    server = openServer({ ...project, config }, { mode: "start" });
    const routes = server.routes();
    findings.push({ name: "routes", status: "ok", message: countRoutes(routes) });
    const { host } = toSettings({}, project);
    const risks = [...findRisks({ mode: "start", config: project.config, host, routes }), ...findIgnoredData(project)];
    for (const { message, hint } of risks) findings.push({ name: "risk", status: "warning", message, hint });
    const { url } = await server.listen({ port: 0, host: "127.0.0.1" });
    await (await fetch(`${url}/doc`)).arrayBuffer();
    return performance.now();
  } catch (error) {
    findings.push(toFailure("start", error));
    return undefined;
  } finally {
    await within(disposeMs, server ? server.close() : dispose(config), { onLate: () => {} });
  }
}

/** Returns the names of environment variables that look like keys. */
function findKeys(): string[] {
  const isKey = /(?:^|_)(?:API_KEY|SECRET|ACCESS_KEY_ID|TOKEN)$/;
  const names = Object.keys(process.env).filter((name) => isKey.test(name) && process.env[name]);
  return names.toSorted().slice(0, 20);
}

function toFailure(name: Finding["name"], error: unknown): Finding {
  const { message = String(error), hint } = error as { message?: string; hint?: string };
  return { name, status: "failed", message: toVisible(message, { allowed: "\n", max: 1_000 }), hint };
}

const toMegabytes = (bytes: number): string => `${(bytes / 1_048_576).toFixed(1)} MB`;
