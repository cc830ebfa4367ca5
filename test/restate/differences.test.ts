import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { andThen, defineWorkflow } from "agentserve";
import { restate } from "agentserve/backends/restate";
import { describe, expect, it, onTestFinished } from "vitest";
import { setTimeout as sleep } from "node:timers/promises";
import { unchecked } from "../../src/core/caller.ts";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";
import { begin as beginExecution } from "../../src/workflows/executions.ts";
import { openEngine } from "./engine.ts";
import type { Config } from "../../src/config/define.ts";
import { parseEvents } from "../harness/client.ts";
import { differences } from "../harness/differences.ts";
import { createGates } from "../harness/gates.ts";
import { patientTimeouts } from "../harness/patience.ts";
import { startServer, type TestServer } from "../harness/server.ts";
import { until } from "../harness/waiting.ts";
import { PortProxy } from "./port-proxy.ts";
import { freePort } from "./restate-server.ts";
import { createStreamProxy } from "./stream-proxy.ts";

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;

/** Two replicas in this process, behind a proxy that the test chooses. */
async function startTwo(
  config: Config,
  startProxy: (ports: number[]) => Promise<{ url: string; close(): void }>,
): Promise<[TestServer, TestServer]> {
  const ports = [await freePort(), await freePort()];
  const proxy = await startProxy(ports);
  const name = `test-${randomUUID()}`;
  const servers: TestServer[] = [];
  for (const port of ports) {
    const create = () => restate({ ingress, admin, name, serve: { port, url: proxy.url }, timeouts: patientTimeouts });
    servers.push(await startServer("in process", { config, backend: { name: "restate", create } }));
  }
  onTestFinished(async () => {
    for (const server of servers) await server.close();
    proxy.close();
  });
  return servers as [TestServer, TestServer];
}
const begin = (server: TestServer, workflow: string, executionId: string) =>
  server.post(
    `/workflows/${workflow}/execute`,
    { input: {}, options: { executionId } },
    { headers: { prefer: "respond-async" } },
  );

describe("a documented difference of replicas", () => {
  it("the documentation has every tested difference, word for word", () => {
    const page = readFileSync("docs/scale-out.md", "utf8");
    expect(Object.values(differences).filter((text) => !page.includes(text))).toEqual([]);
  });

  it("limits are per replica: two replicas with one slot each run two executions", async () => {
    const gates = createGates();
    let [running, most, started] = [0, 0, 0];
    const waiting = defineWorkflow({ id: "waiting" }).andThen({
      id: "waits",
      async execute({ executionId }) {
        most = Math.max(most, ++running);
        await gates.pass(executionId);
        running--;
      },
    });
    const config = { workflows: [waiting], server: { limits: { runningExecutions: 1, queuedExecutions: 100 } } };
    const servers = await startTwo(config, createStreamProxy);
    // The proxy chooses the replicas: executions are started, three at once, until both have one.
    const startMore = async (): Promise<boolean> => {
      const ids = running < 2 && started < 60 ? [started++, started++, started++] : [];
      await Promise.all(ids.map((index) => begin(servers[0], "waiting", `w${index}`)));
      return running === 2;
    };
    await until(startMore, "an execution on each replica");
    for (let index = 0; index < started; index++) gates.open(`w${index}`);
    const ended = async (id: string): Promise<boolean> =>
      (await servers[1].get(`/workflows/waiting/executions/${id}/state`)).body.data.status === "completed";
    for (let index = 0; index < started; index++) await until(() => ended(`w${index}`), `the end of w${index}`);
    expect(most).toBe(2);
  });

  it("events of emit reach readers on the driving replica, and all others reach every reader", async () => {
    const gates = createGates();
    const emitting = defineWorkflow({ id: "emitting" }).andThen({
      id: "emits",
      async execute({ executionId, emit }) {
        await gates.pass(executionId);
        emit({ type: "progress", percent: 50 });
        return "done";
      },
    });
    const config = { workflows: [emitting] };
    const [driving, other] = await startTwo(config, (ports) => PortProxy.start(ports, { preferred: ports[0]! }));
    await begin(other, "emitting", "e1");
    await gates.reached("e1");
    const read = async (server: TestServer, onFirst: () => void) => {
      const response = await server.send("/workflows/emitting/executions/e1/stream", {});
      let text = "";
      for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
        text += part;
        if (text.includes("step-start")) onFirst();
      }
      return parseEvents(text);
    };
    const [here, there] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const streams = Promise.all([read(driving, here.resolve), read(other, there.resolve)]);
    await Promise.race([Promise.all([here.promise, there.promise]), streams]);
    gates.open("e1");
    const [near, far] = await streams;
    const typesOf = (events: { type: string }[]): string[] => events.map(({ type }) => type);
    expect(typesOf(near)).toContain("progress");
    expect(typesOf(far)).toEqual(typesOf(near).filter((type) => type !== "progress"));
  });

  it("steps that run at the same time start in any order, and give their results in the order of the workflow", async () => {
    const started = new Set<string>();
    const names = ["a", "b", "c", "d", "e"];
    const steps = names.map((id) => andThen({ id, execute: () => (started.add(id), id) }));
    const config = { workflows: [defineWorkflow({ id: "beside" }).andAll({ id: "all", steps })] };
    const [server] = await startTwo(config, createStreamProxy);
    const { body } = await server.post("/workflows/beside/execute", { input: {} });
    expect(body.data).toMatchObject({ status: "completed", result: names });
    expect([...started].toSorted()).toEqual(names);
  });

  it("a value of over 30 MB fails its step, once; a smaller one is kept", { timeout: 120_000 }, async () => {
    let calls = 0;
    const large = defineWorkflow({ id: "large" }).andThen({
      id: "makes",
      execute({ data }) {
        calls++;
        return "x".repeat((data as { size: number }).size);
      },
    });
    const limits = { stepValueBytes: 100_000_000, executionBytes: 200_000_000 };
    const [server, other] = await startTwo({ workflows: [large], server: { limits } }, createStreamProxy);
    const run = (size: number) => server.post("/workflows/large/execute", { input: { size } });
    for (const size of [4_000_000, 20_000_000]) {
      const { body } = await run(size);
      expect(body.data.result).toHaveLength(size);
      const path = `/workflows/large/executions/${body.data.executionId}/state`;
      expect((await other.get(path)).body.data.result).toHaveLength(size);
    }
    expect(await run(40_000_000)).toMatchObject({ status: 500 });
    expect(calls).toBe(3);
  });

  it("a delay between retries is durable: after a restart, an attempt waits for the rest of it", async () => {
    const place = { name: `delay-${randomUUID()}`, port: await freePort() };
    const delay = 10_000;
    const calls: number[] = [];
    const retrying = defineWorkflow({ id: "retrying" }).andThen({
      id: "tries",
      retry: { attempts: 2, delay },
      execute() {
        if (calls.push(Date.now()) === 1) throw new Error("not yet");
      },
    }) as unknown as WorkflowDefinition; // the chain is one
    const first = await openEngine(place, retrying);
    await beginExecution(first.engine, first.runnable, {}, { executionId: "x" }, unchecked);
    await until(() => calls.length === 1, "the first attempt");
    await sleep(delay / 2);
    await first.engine.close({ drainMs: 0 });
    const second = await openEngine(place, retrying);
    const openedAt = Date.now();
    onTestFinished(() => second.engine.close({ drainMs: 0 }));
    await until(() => calls.length === 2, "the second attempt");
    expect(calls[1]! - calls[0]!).toBeGreaterThanOrEqual(delay);
    expect(calls[1]! - openedAt, "not the whole delay again").toBeLessThan(delay);
  });
});
