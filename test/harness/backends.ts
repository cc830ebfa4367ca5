import { randomUUID } from "node:crypto";
import { embedded, type EmbeddedBackendOptions } from "../../src/backends/embedded/define.ts";
import { restate } from "../../src/backends/restate/define.ts";
import type { Backend } from "../../src/engine/backend.ts";

/** A backend that suites run on. */
export interface TestBackend {
  readonly name: string;
  /** The replica that answers a call may hear of its effect a moment later: it is not the one that drives the execution. */
  readonly isDistributed?: boolean;
  /** Returns a backend with an empty store of its own, which is gone once its server is closed. */
  create(): Backend;
  /** Returns the backend of a second replica, which then drives all executions of the first. Undefined: there is none. */
  createReplica?(of: Backend): Backend | undefined;
}

/** Every backend that the suites of workflows, agents, auth and observability must pass on. */
const backends: readonly TestBackend[] = [
  { name: "embedded", create: () => embedded({ path: ":memory:" }) },
  { name: "restate", isDistributed: true, create: () => createRestate(`test-${randomUUID()}`), createReplica },
];

/** A backend on the Restate server of `TEST_RESTATE_INGRESS` and `TEST_RESTATE_ADMIN`. */
function createRestate(name: string): Backend {
  const {
    TEST_RESTATE_INGRESS: ingress = "http://127.0.0.1:8080",
    TEST_RESTATE_ADMIN: admin = "http://127.0.0.1:9070",
  } = process.env;
  return restate({ ingress, admin, name, serve: { port: 0 } });
}

/** With `TEST_RESTATE_REPLICA=1`, suites call one replica, and another one drives: Restate calls the URL that was registered last. */
function createReplica({ settings }: Backend): Backend | undefined {
  return process.env["TEST_RESTATE_REPLICA"] === "1" ? createRestate(String(settings!["name"])) : undefined;
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
