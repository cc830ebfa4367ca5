import { randomUUID } from "node:crypto";
import { embedded, type EmbeddedBackendOptions } from "../../src/backends/embedded/define.ts";
import { restate } from "../../src/backends/restate/define.ts";
import type { Backend } from "../../src/engine/contract/backend.ts";
import { freePort } from "../restate/restate-server.ts";
import { createStreamProxy } from "../restate/stream-proxy.ts";
import { patientTimeouts } from "./patience.ts";

/** A backend that suites run on. */
export interface TestBackend {
  readonly name: string;
  /** The replica that answers a call may hear of its effect a moment later: it is not the one that drives the execution. */
  readonly isDistributed?: boolean;
  /** Returns a backend with an empty store of its own, which is gone once its server is closed. */
  create(): Backend;
  /** Removes what is left of a backend whose servers are closed. */
  discard?(backend: Backend): Promise<void>;
  /** Returns the backends of several replicas with one empty store. Undefined: suites run on one server. */
  createReplicas?(): Promise<TestReplicas | undefined>;
}

interface TestReplicas {
  readonly backends: readonly Backend[];
  close(): void;
}

/** Every backend that the suites of workflows, agents, auth and observability must pass on. */
const backends: readonly TestBackend[] = [
  { name: "embedded", create: () => embedded({ path: ":memory:" }) },
  {
    name: "restate",
    isDistributed: true,
    create: () => createRestate(`test-${randomUUID()}`),
    createReplicas,
    discard,
  },
];

/** A backend on the Restate server of `TEST_RESTATE_INGRESS` and `TEST_RESTATE_ADMIN`. */
function createRestate(name: string, serve: { port: number; url?: string } = { port: 0 }): Backend {
  const {
    TEST_RESTATE_INGRESS: ingress = "http://127.0.0.1:8080",
    TEST_RESTATE_ADMIN: admin = "http://127.0.0.1:9070",
  } = process.env;
  return restate({ ingress, admin, name, serve, timeouts: patientTimeouts });
}

/** Removes the services of a test: with a thousand of them, and calls to servers that are gone, Restate becomes slow. */
async function discard({ settings }: Backend): Promise<void> {
  const { admin, name } = settings as { admin: string; name: string }; // as `restate()` makes them
  const found = await fetch(`${admin}/services/${name}`);
  const { deployment_id: deployment } = (await found.json()) as { deployment_id?: string };
  if (deployment === undefined) return; // it was never registered
  const headers = { "content-type": "application/json", accept: "application/json" };
  const query = `select id from sys_invocation where target_service_name like '${name}%' and status <> 'scheduled'`;
  const left = await fetch(`${admin}/query`, { method: "POST", headers, body: JSON.stringify({ query }) });
  const { rows } = (await left.json()) as { rows: { id: string }[] };
  for (const { id } of rows) await fetch(`${admin}/invocations/${id}/kill`, { method: "PATCH" });
  await fetch(`${admin}/deployments/${deployment}?force=true`, { method: "DELETE" });
}

/** The number of replicas that suites run on, of a backend that can have several. */
export const replicaCount = Number(process.env["TEST_RESTATE_REPLICAS"] ?? 1);

/** With several replicas, Restate calls them in turn, through a proxy. */
async function createReplicas(): Promise<TestReplicas | undefined> {
  if (replicaCount === 1) return undefined;
  const name = `test-${randomUUID()}`;
  const ports: number[] = [];
  while (ports.length < replicaCount) ports.push(await freePort());
  const { url, close } = await createStreamProxy(ports);
  return { backends: ports.map((port) => createRestate(name, { port, url })), close };
}

/** The backend that `TEST_BACKEND` names; the first of the list without it. */
export const chosenBackend: TestBackend = findBackend(process.env["TEST_BACKEND"] ?? backends[0]!.name);

function findBackend(name: string): TestBackend {
  const found = backends.find((backend) => backend.name === name);
  if (!found) throw new Error(`TEST_BACKEND: expected ${backends.map((one) => one.name).join(" or ")}, found ${name}`);
  return found;
}

/** The embedded backend on a file, whichever is chosen: for tests of what is in that file, or of a restart on it. */
export const onFile = (path: string, options: Omit<EmbeddedBackendOptions, "path"> = {}): TestBackend => ({
  name: "embedded, on a file",
  create: () => embedded({ ...options, path }),
});
