import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import { restate } from "../../src/backends/restate/define.ts";
import { Interruptions } from "../../src/backends/restate/drive/interruptions.ts";
import type { AttemptPlan } from "../../src/engine/walk/decision.ts";
import { resume } from "../../src/workflows/resume.ts";
import { patienceMs, patientTimeouts } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";
import { die } from "./die.ts";
import { asking, openEngine, openOn } from "./engine.ts";
import { query } from "./replica-process.ts";
import { freePort } from "./restate-server.ts";

const module = join(import.meta.dirname, "lost-row-app.ts");
const beginning = ["workflow-start", "step-start", "step-complete", "step-start", "workflow-suspended"];

/** Runs replicas that die, and continues with one on the second version of the workflow. */
async function dieAt(...faults: string[]) {
  const place = { name: `lost-${randomUUID()}`, port: await freePort() };
  for (const fault of faults) await die(module, { ...place, fault });
  const ran: string[] = [];
  const opened = await openEngine(
    place,
    asking(2, (step) => ran.push(step)),
  );
  onTestFinished(() => opened.engine.close({ drainMs: 0 }));
  const eventsFrom = async (afterSeq: number): Promise<string[]> => {
    const seen: string[] = [];
    for await (const { seq, type } of opened.engine.events("x", afterSeq, AbortSignal.timeout(patienceMs)))
      seen.push(`${seq} ${type}`);
    return seen;
  };
  return { ...opened, ran, eventsFrom };
}
const numbered = (types: readonly string[]): string[] => types.map((type, index) => `${index + 1} ${type}`);

const timeout = 2 * patienceMs;

it("a suspension whose row was lost with its drive is stored, and resumed", { timeout }, async () => {
  const { engine, runnable, ran, eventsFrom } = await dieAt("suspended");
  const state = await engine.state("x");
  expect(state).toMatchObject({ status: "suspended", epoch: 1, last: { pending: [{ stepId: "ask", reason: "Why" }] } });
  expect(await eventsFrom(0)).toEqual(numbered(beginning));
  const { epoch } = await resume(engine, runnable, state!, { resumeData: 2 });
  expect(await engine.settled("x", epoch)).toMatchObject({ status: "completed", last: { result: "[1,2]" } });
  expect(ran, "recorded steps do not run again").toEqual(["ask", "more"]);
  expect((await eventsFrom(beginning.length)).at(-1)).toMatch(/workflow-complete$/);
});

it("an end whose row was lost with its drive is stored", { timeout }, async () => {
  const { engine, ran, eventsFrom } = await dieAt("completed");
  expect(await engine.state("x")).toMatchObject({ status: "completed", last: { result: "[1,2]" } });
  const seen = await eventsFrom(beginning.length);
  expect(seen.map((event) => event.replace(/^\d+ /, ""))).toEqual(["step-complete", "workflow-complete"]);
  expect(ran).toEqual([]);
});

it("a resume that comes before the lost row of the suspension continues after it", { timeout }, async () => {
  const { engine, runnable, ran } = await dieAt("suspended");
  const state = (await engine.state("x"))!;
  const { epoch } = await resume(engine, runnable, state, { resumeData: 2 });
  expect(await engine.settled("x", epoch)).toMatchObject({ status: "completed", last: { result: "[1,2]" } });
  expect(ran).toEqual(["ask", "more"]);
});

it(
  "a replica that dies between the end of a drive and the next one leaves the rest to Restate",
  { timeout },
  async () => {
    const { engine, ran } = await dieAt("step", "rescue");
    expect(await engine.settled("x", 0, AbortSignal.timeout(patienceMs))).toMatchObject({ status: "suspended" });
    expect(ran).toEqual(["first", "ask"]);
  },
);

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;

/** A proxy of the admin API that accepts only registrations until it is repaired. */
async function breakAdmin(): Promise<{ url: string; repair(): void }> {
  let isBroken = true;
  const server = createServer(async (request, response) => {
    const { url, method = "GET", headers } = request;
    if (isBroken && url !== "/deployments") return void response.writeHead(503).end();
    const { "content-type": type = "application/json", accept = "application/json" } = headers;
    const body = method === "GET" ? undefined : await buffer(request);
    const init = { method, headers: { "content-type": type, accept }, ...(body && { body: new Uint8Array(body) }) };
    const answer = await fetch(`${admin}${url}`, init);
    response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo; // it listens on a port
  return { url: `http://127.0.0.1:${port}`, repair: () => (isBroken = false) };
}

it("a rescue that cannot be completed is sent once, however often Restate repeats the drive", { timeout }, async () => {
  const place = { name: `stuck-${randomUUID()}`, port: await freePort() };
  await die(module, { ...place, fault: "step" });
  const broken = await breakAdmin();
  const { name, port } = place;
  const backend = restate({ ingress, admin: broken.url, name, serve: { port }, timeouts: patientTimeouts });
  const { engine } = await openOn(
    backend,
    asking(2, () => {}),
  );
  onTestFinished(() => engine.close({ drainMs: 0 }));
  const invocationsOf = (handler: string) =>
    query<{ retry_count: number }>(
      `select retry_count from sys_invocation where target_service_name like '${name}%' and target_handler_name = '${handler}'`,
    );
  await until(async () => (await invocationsOf("run")).some((run) => run.retry_count >= 10), "attempts of the drive");
  expect(await invocationsOf("rescue")).toHaveLength(1);
  broken.repair();
  expect(await engine.settled("x", 0, AbortSignal.timeout(patienceMs))).toMatchObject({ status: "suspended" });
});

it("a drive whose code leads to other calls than its journal is replaced once", { timeout }, async () => {
  const place = { name: `other-${randomUUID()}`, port: await freePort() };
  await die(module, { ...place, fault: "step" });
  let isOther = true;
  const hourMs = 3_600_000;
  const { endDrive } = Interruptions.prototype;
  onTestFinished(() => void (Interruptions.prototype.endDrive = endDrive));
  Interruptions.prototype.endDrive = async function (input) {
    const isEnded = await endDrive.call(this, input);
    if (isEnded) isOther = false;
    return isEnded;
  };
  const ran: string[] = [];
  const { engine } = await openEngine(
    place,
    asking(1, (step) => ran.push(step)),
    (createWalk) => (execution, host) => {
      const walk = createWalk(execution, host);
      const next = walk.next.bind(walk);
      walk.next = (input) => {
        const { starts, ...decision } = next(input);
        // Its journal has a run where this code sleeps.
        const toLater = (plan: AttemptPlan) => ({ ...plan, dueAt: Date.now() + hourMs });
        return { ...decision, starts: isOther ? starts.map(toLater) : starts };
      };
      return walk;
    },
  );
  onTestFinished(() => engine.close({ drainMs: 0 }));
  expect(await engine.settled("x", 0, AbortSignal.timeout(patienceMs))).toMatchObject({ status: "suspended" });
  expect(ran).toEqual(["first", "ask"]);
  expect((await engine.load([])).drives?.rescues).toMatchObject({ journal: 1, code: 0 });
});
