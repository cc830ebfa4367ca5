import { afterAll, beforeAll, expect, it } from "vitest";
import { jwtAuth, createToken } from "agentserve";
import { chosenBackend } from "../harness/backends.ts";
import { describeInProcess, describeServer, type TestServer } from "../harness/server.ts";
import { eventually, within } from "../harness/waiting.ts";
import { begin, ends, gates, workflows } from "./executions-world.ts";

const secret = "a secret of more than thirty-two bytes";
const tokens = {
  ann: await createToken({ sub: "ann" }, secret),
  ben: await createToken({ sub: "ben" }, secret),
  faceless: await createToken({ name: "no id" }, secret),
};
type User = keyof typeof tokens;
const as = (user: User) => ({ headers: { authorization: `Bearer ${tokens[user]}` } });
const idsOf = ({ body }: { body: any }): string[] => body.data.items.map(({ executionId }: any) => executionId);

/** Follows GET /executions/stream. `next` resolves to the next event. */
async function follow(server: TestServer, query = "", init: RequestInit = {}) {
  const response = await server.send(`/executions/stream${query}`, init);
  expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  return {
    async next(): Promise<any> {
      for (;;) {
        const end = text.indexOf("\n\n");
        const frame = text.slice(0, end);
        if (end >= 0) text = text.slice(end + 2);
        if (end >= 0 && frame !== ":") return JSON.parse(frame.replace(/^data: /, ""));
        if (end >= 0) continue;
        const { done, value } = await within(reader.read(), "an event");
        if (done) return undefined;
        text += value;
      }
    },
    leave: () => reader.cancel(),
  };
}

describeInProcess("GET /executions", { workflows }, (server) => {
  const prefix = "all";
  beforeAll(async () => {
    for (const [number, end] of ends.entries()) {
      const workflowId = ["alpha", "beta"][number % 2]!;
      await begin(server, { id: `${prefix}-${end}`, workflowId, userId: number < 3 ? "ann" : undefined, end });
    }
  });
  afterAll(() => ends.forEach((end) => gates.open(`${prefix}-${end}`))); // before the server is closed, which waits for them

  it("lists the executions of all workflows newest first, without their values", async () => {
    const answer = await server.get("/executions");
    expect(idsOf(answer)).toEqual(ends.toReversed().map((end) => `${prefix}-${end}`));
    const [running, cancelled] = answer.body.data.items;
    expect(running).toEqual({
      executionId: `${prefix}-running`,
      workflowId: "beta",
      status: "running",
      startAt: expect.any(String),
      endAt: null,
    });
    expect(cancelled).toMatchObject({ status: "error", cancellation: { reason: "Cancelled by request" } });
    for (const item of answer.body.data.items)
      expect(Object.keys(item)).not.toEqual(
        expect.arrayContaining([expect.stringMatching(/^(input|result|context)$/)]),
      );
  });

  it("lists executions with include=values as the list of their workflow does", async () => {
    const { items } = (await server.get("/executions?include=values&workflowId=alpha")).body.data;
    expect(items).toEqual((await server.get("/workflows/alpha/executions")).body.data.items);
    expect(items.at(-1)).toMatchObject({ input: { end: "completed" }, context: { userId: "ann" }, result: {} });
  });

  it.each([
    ["status=suspended", ["request", "person"]],
    ["status=error,completed", ["cancelled", "error", "completed"]],
    ["kind=person", ["person"]],
    ["kind=request,person", ["request", "person"]],
    ["kind=system", []],
    ["kind=person&status=running", []],
    ["cancelled=true", ["cancelled"]],
    ["cancelled=false&status=error", ["error"]],
    ["workflowId=beta", ["running", "request", "error"]],
    ["workflowId=nope", []],
    ["userId=ann", ["person", "error", "completed"]],
    ["userId=nobody", []],
    ["since=2100-01-01", []],
    ["until=2000-01-01T00:00:00Z", []],
    ["since=2000-01-01&until=2100-01-01&status=running", ["running"]],
  ])("lists only the executions that match %s", async (query, expected) => {
    expect(idsOf(await server.get(`/executions?${query}`))).toEqual(expected.map((end) => `${prefix}-${end}`));
  });

  it.each([
    ["status=suspended,completed", ["person", "completed"]],
    ["kind=person", ["person"]],
    ["cancelled=true", ["cancelled"]],
    ["cancelled=false", ["person", "completed"]],
    ["userId=ann", ["person", "completed"]],
    ["id=all-c", ["cancelled", "completed"]],
    ["until=2000-01-01", []],
    ["since=2000-01-01&limit=1", ["cancelled"]],
  ])("lists only the executions of a workflow that match %s", async (query, expected) => {
    const answer = await server.get(`/workflows/alpha/executions?${query}`);
    expect(idsOf(answer)).toEqual(expected.map((end) => `${prefix}-${end}`));
    const all = await server.get(`/executions?include=values&workflowId=alpha&${query}`);
    expect(answer.body.data).toEqual(all.body.data);
  });

  it("finds executions by the beginning of their id", async () => {
    expect(idsOf(await server.get(`/executions?id=${prefix}-p`))).toEqual([`${prefix}-person`]);
    expect(idsOf(await server.get(`/executions?id=${prefix}-&workflowId=alpha`))).toHaveLength(3);
    expect(idsOf(await server.get("/executions?id=none"))).toEqual([]);
  });

  it.each([
    ["status=ended", "status.0: expected one or more of running, suspended, completed, error"],
    ["status=", "status.0: expected one or more of running, suspended, completed, error"],
    ["kind=sleep", "kind.0: expected one or more of person, request, timer, event, system"],
    ["id=a%25", "id: expected the beginning of an id"],
    ["cancelled=yes", "cancelled: expected true or false"],
    ["since=yesterday", "since: expected a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970"],
    ["include=all", "include.0: expected one or more of values, access"],
    ["limit=201", "limit: expected 1 to 200"],
    ["cursor=x", "cursor: expected the nextCursor of a previous response"],
  ])("refuses the query %s of an execution list", async (query, problem) => {
    const paths = ["/executions", ...(query.startsWith("include") ? [] : ["/workflows/alpha/executions"])];
    for (const path of paths) {
      const { status, body } = await server.get(`${path}?${query}`);
      expect([path, status, body.error]).toEqual([path, 400, `Invalid query: ${problem}`]);
    }
  });
});

describeServer("GET /executions/stream", { config: { workflows }, only: ["start"] }, (server) => {
  const prefix = "live";

  it("streams each start and transition of all executions, with the kind of a suspension", async () => {
    if (chosenBackend.isDistributed) return; // a replica has those that it drives or has answered
    const events = await follow(server);
    await begin(server, { id: `${prefix}-1`, workflowId: "alpha", userId: undefined, end: "person" });
    const path = `/workflows/alpha/executions/${prefix}-1`;
    await server.post(`${path}/resume`, { resumeData: { ok: true } });
    await begin(server, { id: `${prefix}-2`, workflowId: "beta", userId: undefined, end: "cancelled" });
    const one = { type: "execution", executionId: `${prefix}-1`, workflowId: "alpha" };
    const other = { type: "execution", executionId: `${prefix}-2`, workflowId: "beta" };
    for (const expected of [
      { ...one, status: "running" },
      { ...one, status: "suspended", kind: "person" },
      { ...one, status: "running" },
      { ...one, status: "completed" },
      { ...other, status: "running" },
      { ...other, status: "suspended", kind: "person" },
      { ...other, status: "error" },
    ])
      expect(await events.next()).toEqual(expected);
    await events.leave();
  });

  it("streams the executions of one workflow and user on request, and holds no config", async () => {
    if (chosenBackend.isDistributed) return;
    const events = await follow(server, "?workflowId=alpha&userId=ann");
    await begin(server, { id: `${prefix}-3`, workflowId: "beta", userId: "ann", end: "completed" });
    await begin(server, { id: `${prefix}-4`, workflowId: "alpha", userId: "ben", end: "completed" });
    await begin(server, { id: `${prefix}-5`, workflowId: "alpha", userId: "ann", end: "completed" });
    expect(await events.next()).toMatchObject({ executionId: `${prefix}-5`, status: "running" });
    await eventually(() => expect(server.snapshot.holders().size).toBe(0));
    await events.leave();
  });
});

for (const ownership of [true, false])
  describeServer(
    `with a provider and ownership: ${ownership}, executions of all workflows`,
    { config: { workflows, auth: jwtAuth({ secret, ownership }) }, only: ["start"] },
    (server) => {
      const prefix = ownership ? "own" : "shared";
      const start = (user: User, id = `${prefix}-${user}`) =>
        server.post(
          "/workflows/alpha/execute",
          { input: { end: "completed" }, options: { executionId: id } },
          as(user),
        );

      it("lists the caller's own executions without a filter", async () => {
        for (const user of ["ann", "ben", "faceless"] as const) await start(user);
        expect(idsOf(await server.get("/executions", as("ann")))).toEqual([`${prefix}-ann`]);
        expect(idsOf(await server.get("/executions?userId=ann", as("ann")))).toEqual([`${prefix}-ann`]);
        expect(idsOf(await server.get("/executions", as("faceless")))).toEqual([]);
        expect((await server.get("/executions")).status).toBe(401);
        expect((await server.get("/executions/stream")).status).toBe(401);
      });

      it("lists the executions of another user only without ownership, if the caller names that user", async () => {
        for (const path of ["/executions", "/executions/stream", "/workflows/alpha/executions"]) {
          const init: RequestInit = as("ben");
          const response = await server.send(`${path}?userId=ann`, init);
          expect(response.status).toBe(ownership ? 403 : 200);
          if (ownership) expect(await response.json()).toEqual({ success: false, error: "Forbidden" });
          else await response.body!.cancel();
        }
        if (ownership) return;
        for (const path of ["/executions", "/workflows/alpha/executions"])
          expect(idsOf(await server.get(`${path}?userId=ann`, as("ben")))).toEqual([`${prefix}-ann`]);
      });

      it("never streams the executions of another user", async () => {
        if (chosenBackend.isDistributed) return;
        const events = await follow(server, "", as("ann"));
        const nobody = await follow(server, "", as("faceless"));
        const none = nobody.next();
        await start("ben", `${prefix}-ben-1`);
        await start("faceless", `${prefix}-faceless-1`);
        await start("ann", `${prefix}-ann-1`);
        expect(await events.next()).toMatchObject({ executionId: `${prefix}-ann-1`, status: "running" });
        expect(await events.next()).toMatchObject({ executionId: `${prefix}-ann-1`, status: "completed" });
        await events.leave();
        await nobody.leave();
        expect(await none).toBeUndefined();
      });
    },
  );
