import { describe, expect, it } from "vitest";
import * as v from "valibot";
import {
  createServer,
  defineAgent,
  defineSchedule,
  defineWorkflow,
  embedded,
  ServeError,
  type Config,
  type Server,
} from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import { neverMs } from "../harness/patience.ts";
import { createProject } from "../harness/project.ts";
import { open as openServer } from "./open.ts";

const order = defineWorkflow({ id: "order", input: v.object({ amount: v.pipe(v.string(), v.transform(Number)) }) })
  .andThen({
    id: "approve",
    resumeSchema: v.object({ ok: v.boolean() }),
    execute: ({ data, resumeData, suspend }) =>
      data.amount < 100 || resumeData
        ? { ...data, ok: resumeData?.ok ?? true }
        : suspend("Approve?", { of: data.amount }),
  })
  .andThen({
    id: "pay",
    execute: ({ data, context }) => ({ paid: data.ok ? data.amount : 0, by: context.get("userId") }),
  });
const broken = defineWorkflow({ id: "broken" }).andThen({
  id: "fails",
  execute: () => Promise.reject(new Error("the bank is closed")),
});
const waits = defineWorkflow({ id: "waits" }).andWaitFor({
  id: "paid",
  event: "paid",
  key: ({ data }) => String(data["n"]),
});
const stays = defineWorkflow({ id: "stays" }).andThen({
  id: "stay",
  execute: ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
});
const echo = defineAgent({ id: "echo", instructions: "Repeat.", model: echoModel() });
const judge = defineAgent({ id: "judge", instructions: "Judge.", model: scriptedModel(['{"verdict":"yes"}']) });

const open = (config: Config = {}): Server =>
  openServer({ agents: [echo, judge], workflows: [order, broken, waits, stays], ...config });
const statusOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => "no error",
    (error: ServeError) => [error.status, error.message],
  );

describe("runtime of a server", () => {
  it("executes a workflow from code and returns its outcome", async () => {
    const { runtime } = open();
    const outcome = await runtime.execute(order, { amount: "5" });
    expect(outcome).toEqual({ executionId: expect.any(String), status: "completed", result: { paid: 5 } });
    expect(await runtime.execute("order", { amount: "6" })).toMatchObject({ result: { paid: 6 } });
    expect(await runtime.execute(broken, {})).toEqual({
      executionId: expect.any(String),
      status: "error",
      error: "the bank is closed",
    });
  });

  it("resumes a suspended execution from code, and then returns its final result", async () => {
    const { runtime } = open();
    const handle = await runtime.start(order, { amount: "500" }, { executionId: "big" });
    expect(handle.executionId).toBe("big");
    const waiting = await handle.result();
    expect(waiting).toMatchObject({ status: "suspended", suspension: { stepId: "approve", data: { of: 500 } } });
    expect(await handle.result()).toEqual(waiting);
    expect(await statusOf(handle.resume({ ok: 1 }))).toEqual([400, expect.stringContaining("Invalid resume data: ok")]);
    await handle.resume({ ok: true });
    expect(await handle.result()).toMatchObject({ status: "completed", result: { paid: 500 } });
    expect(await statusOf(handle.resume({ ok: true }))).toEqual([404, "Execution big is not suspended"]);
    expect(await handle.state()).toMatchObject({ status: "completed", input: { amount: 500 }, result: { paid: 500 } });
  });

  it("cancels an execution from code", async () => {
    const { runtime } = open();
    const handle = await runtime.start(stays, {});
    const ending = handle.result();
    await handle.cancel("no longer needed");
    expect(await ending).toMatchObject({ status: "error", cancellation: { reason: "no longer needed" } });
    expect(await statusOf(handle.cancel())).toEqual([400, `Execution ${handle.executionId} has already ended`]);
  });

  it("throws the errors of the routes in code, and starts nothing", async () => {
    const { runtime } = open();
    await runtime.start(order, { amount: "500" }, { executionId: "taken" });
    const start = runtime.start as (...call: unknown[]) => Promise<unknown>;
    expect(await statusOf(start("order", { amount: 5 }))).toEqual([
      400,
      expect.stringMatching(/^Input validation failed: amount: /),
    ]);
    expect(await statusOf(start("order", undefined))).toEqual([400, "Input validation failed: input is required"]);
    expect(await statusOf(start("nobody", {}))).toEqual([404, "Workflow nobody not found"]);
    expect(await statusOf(start(order, { amount: "1" }, { executionId: "taken" }))).toEqual([
      409,
      "Execution taken already exists",
    ]);
    expect(await statusOf(start(order, { amount: "1" }, { executionId: "a b" }))).toEqual([
      400,
      expect.stringMatching(/^Invalid options: executionId: expected 1 to 128/),
    ]);
    for (const executionId of ["child:x", "schedule:x"])
      expect(await statusOf(start(order, { amount: "1" }, { executionId }))).toEqual([
        400,
        "Invalid options: executionId: expected an id that does not begin with child: or schedule:",
      ]);
    expect(await statusOf(start(order, { amount: "1" }, { context: { at: new Date() } }))).toEqual([
      400,
      "Invalid options: context.at is a Date: use a string",
    ]);
    for (const as of [{}, { id: "" }, { id: 0.5 }, null, "ada"])
      expect(await statusOf(start(order, { amount: "1" }, { as }))).toEqual([
        400,
        "Invalid options: as: expected a user with an id",
      ]);
    await expect(start(undefined, {})).rejects.toThrow("runtime: expected a workflow or its id, found undefined");
    expect((await runtime.executions.list()).items).toHaveLength(1);
  });

  it("starts an execution from code for a user, who then owns it", async () => {
    const { runtime } = open();
    const outcome = await runtime.execute(order, { amount: "5" }, { as: { id: "ada", name: "Ada" } });
    expect(outcome).toMatchObject({ result: { paid: 5, by: "ada" } });
    const { items } = await runtime.executions.list({ userId: "ada" });
    expect(items).toMatchObject([{ executionId: outcome.executionId, context: { userId: "ada" } }]);
  });

  it("takes the user of a start from code from `as` only, not from the context", async () => {
    const { runtime } = open();
    const context = { plan: "pro", user: { id: "eve" }, userId: "eve" };
    const handle = await runtime.start(order, { amount: "5" }, { context });
    expect((await handle.state()).context).toEqual({ plan: "pro" });
    expect(context.userId).toBe("eve");
  });

  it("lists and finds executions from code", async () => {
    const { runtime } = open();
    const ids = ["a-1", "a-2", "b-1"];
    for (const executionId of ids) await (await runtime.start(order, { amount: "500" }, { executionId })).result();
    await runtime.execute(broken, {});
    const idsOf = async (filter: Parameters<typeof runtime.executions.list>[0]) => {
      const { items, nextCursor } = await runtime.executions.list(filter);
      return { ids: items.map(({ executionId }) => executionId), nextCursor };
    };
    expect(await idsOf({ id: "a-" })).toEqual({ ids: ["a-2", "a-1"], nextCursor: null });
    expect(await idsOf({ status: "error" })).toMatchObject({ ids: [expect.any(String)] });
    expect(await idsOf({ status: ["suspended", "error"], workflowId: "order", kind: "person" })).toMatchObject({
      ids: ["b-1", "a-2", "a-1"],
    });
    expect(await idsOf({ since: new Date(Date.now() + neverMs) })).toEqual({ ids: [], nextCursor: null });
    const first = await idsOf({ workflowId: "order", limit: 2 });
    expect(first).toEqual({ ids: ["b-1", "a-2"], nextCursor: expect.any(String) });
    expect(await idsOf({ workflowId: "order", limit: 2, cursor: first.nextCursor! })).toMatchObject({ ids: ["a-1"] });
    expect(await statusOf(runtime.executions.list({ limit: 201 }))).toEqual([
      400,
      "Invalid filter: limit: expected 1 to 200",
    ]);
    await (await runtime.executions.get("a-1")).resume({ ok: false });
    expect(await (await runtime.executions.get("a-1")).result()).toMatchObject({ result: { paid: 0 } });
    expect(await statusOf(runtime.executions.get("a-9"))).toEqual([404, "Execution a-9 not found"]);
  });

  it("sends events from code", async () => {
    const { runtime } = open();
    const handle = await runtime.start(waits, { n: 1 });
    const event = { name: "paid", key: "1", data: { cents: 5 }, id: "e1" };
    expect(await runtime.send(event)).toEqual({ id: "e1" });
    expect(await runtime.send(event)).toEqual({ id: "e1" });
    expect(await statusOf(runtime.send({ ...event, data: 6 }))).toEqual([409, "Event e1 exists with another body"]);
    expect(await statusOf(runtime.send({ name: "a b" }))).toEqual([
      400,
      expect.stringMatching(/^Invalid event: name: /),
    ]);
    await expect.poll(async () => (await handle.state()).result).toEqual({ cents: 5 });
  });

  it("asks an agent from code for text, or for an object", async () => {
    const { runtime } = open();
    expect(await runtime.ask(echo, "hello")).toContain("hello");
    expect(await runtime.ask("judge", "Well?", { schema: v.object({ verdict: v.string() }) })).toEqual({
      verdict: "yes",
    });
    expect(await statusOf(runtime.ask("nobody", "hello"))).toEqual([404, "Agent nobody not found"]);
  });

  it("continues executions of the last process, and refuses work when the server is closed", async () => {
    const path = `${createProject({})}/data.db`;
    const first = open({ backend: embedded({ path }) });
    const { executionId } = await first.runtime.start(order, { amount: "500" });
    await first.close();
    expect(await statusOf(first.runtime.start(order, { amount: "5" }))).toEqual([503, "Server is shutting down"]);
    const second = open({ backend: embedded({ path }) });
    const handle = await second.runtime.executions.get(executionId);
    await handle.resume({ ok: true });
    expect(await handle.result()).toMatchObject({ result: { paid: 500 } });
  });
});

it("opens the store and begins schedules with ready(), without a port or a request", async () => {
  const ran = Promise.withResolvers<string>();
  const note = defineWorkflow({ id: "note" }).andThen({
    id: "note",
    execute: ({ executionId }) => ran.resolve(executionId),
  });
  const server = createServer({
    workflows: [note],
    schedules: [defineSchedule({ id: "each", every: "1s", workflow: note })],
    backend: embedded({ path: ":memory:" }),
  });
  await server.ready();
  expect(await ran.promise).toMatch(/^schedule:each:\d{4}-/);
  await server.close();
  await expect(server.ready()).rejects.toMatchObject({ status: 503 });
});
