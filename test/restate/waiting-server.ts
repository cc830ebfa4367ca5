import { randomUUID } from "node:crypto";
import { expect, onTestFinished } from "vitest";
import { restate, type RestateBackendOptions } from "../../src/backends/restate/define.ts";
import { withBounds } from "../harness/bounds.ts";
import { patienceMs, patientTimeouts } from "../harness/patience.ts";
import type { TestBackend } from "../harness/backends.ts";
import type { Config } from "../../src/config/define.ts";
import type { Bounds } from "../../src/config/limits.ts";
import { startServer, type TestServer } from "../harness/server.ts";
import { query } from "./replica-process.ts";
import { freePort } from "./restate-server.ts";

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;

type Workflows = NonNullable<Config["workflows"]>;

/** A place in Restate. Each server that is started there closes the one before it, and continues what that one left. */
export async function createPlace(options: Partial<RestateBackendOptions> = {}) {
  const port = await freePort();
  const name = `waits-${randomUUID()}`;
  const create = () => restate({ ingress, admin, name, serve: { port }, timeouts: patientTimeouts, ...options });
  let last: TestServer | undefined;
  onTestFinished(() => last?.close());
  return {
    name,
    port,
    async start(workflows: Workflows, bounds: Partial<Bounds> = {}, more: Config = {}) {
      await last?.close();
      const started = await openHere({ name: "restate", create }, workflows, bounds, more);
      last = started.server;
      return started;
    },
    /** Replaces the state of an object. */
    async set(service: string, key: string, state: Record<string, unknown>): Promise<void> {
      const toBytes = (value: unknown): number[] => [...Buffer.from(JSON.stringify(value))];
      const bytes = Object.fromEntries(Object.entries(state).map(([field, value]) => [field, toBytes(value)]));
      const body = JSON.stringify({ object_key: key, new_state: bytes });
      const headers = { "content-type": "application/json" };
      const url = `${admin}/services/${name}${service}/state`;
      const send = async (): Promise<number> => (await fetch(url, { method: "POST", headers, body })).status;
      await expect.poll(send, { timeout: patienceMs }).toBe(202); // 404 until the server is registered
      const sql = `select key from state where service_name = '${name}${service}' and service_key = '${key}'`;
      const fields = Object.keys(state).length;
      await expect.poll(() => query(sql), { timeout: patienceMs }).toHaveLength(fields);
    },
    /** The scheduled calls of a handler, by the key of their object. */
    scheduled: (service = "", method = "wake") =>
      query<{ key: string }>(
        `select target_service_key as key from sys_invocation where target_service_name = '${name}${service}'
          and target_handler_name = '${method}' and status = 'scheduled'`,
      ),
  };
}

/** A server at a place of its own. */
export const startHere = async (workflows: Workflows, bounds: Partial<Bounds> = {}) =>
  (await createPlace()).start(workflows, bounds);

async function openHere(backend: TestBackend, workflows: Workflows, bounds: Partial<Bounds>, more: Config) {
  const server = await startServer("start", {
    config: withBounds({ drainMs: 50, ...bounds }, { ...more, workflows }),
    backend,
  });
  const state = async (id: string, workflow = workflows[0]!.id) =>
    (await server.get(`/workflows/${workflow}/executions/${id}/state`)).body.data;
  return {
    server,
    state,
    begin: async (id: string, input: object = {}, workflow = workflows[0]!.id) => {
      const headers = { "content-type": "application/json", prefer: "respond-async" };
      const body = JSON.stringify({ input, options: { executionId: id } });
      return server.request(`/workflows/${workflow}/execute`, { method: "POST", headers, body });
    },
    async reach(id: string, status: string, workflow?: string): Promise<void> {
      await expect.poll(async () => (await state(id, workflow)).status, { timeout: patienceMs }).toBe(status);
    },
  };
}
