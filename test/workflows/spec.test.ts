import { expect, it } from "vitest";
import { replicaCount } from "../harness/backends.ts";
import { hasDifference } from "../harness/differences.ts";
import { describeInProcess, describeServer, type TestServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";
import { gates, timesRan, workflows } from "./fixtures.ts";

const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
let counter = 0;
const freshId = (): string => `spec-${++counter}`;
const path = (workflow: string, id: string, action: string): string =>
  `/workflows/${workflow}/executions/${id}/${action}`;
const state = async (server: TestServer, workflow: string, id: string) =>
  (await server.get(path(workflow, id, "state"))).body.data;
const begin = (server: TestServer, workflow: string, input: object, executionId: string, options = {}) =>
  server.post(`/workflows/${workflow}/execute`, { input, options: { executionId, ...options } });
const beginAsync = async (server: TestServer, workflow: string, input: object, executionId: string) => {
  const headers = { "content-type": "application/json", prefer: "respond-async" };
  const answer = await server.request(`/workflows/${workflow}/execute`, {
    method: "POST",
    body: JSON.stringify({ input, options: { executionId } }),
    headers,
  });
  expect([answer.status, answer.body.data]).toEqual([202, { executionId, status: "running" }]);
};

describeInProcess("execution result", { workflows }, (server) => {
  it("answers execute of a workflow that completes with its id, times, status and result", async () => {
    const id = freshId();
    const { status, headers, body } = await begin(server, "double", { n: 21 }, id);
    expect([status, headers.get("x-execution-id")]).toEqual([200, id]);
    expect(body).toEqual({
      success: true,
      data: { executionId: id, startAt: time, endAt: time, status: "completed", result: { n: 42 } },
    });
  });

  it("generates an executionId when the request has none", async () => {
    const { headers, body } = await server.post("/workflows/double/execute", { input: { n: 1 } });
    expect(body.data.executionId).toMatch(/^[A-Za-z0-9][\w.:-]{0,127}$/);
    expect(headers.get("x-execution-id")).toBe(body.data.executionId);
  });

  it("answers execute of a workflow that suspends with the suspension, and null for endAt and result", async () => {
    const id = freshId();
    const { status, body } = await begin(server, "ask", { amount: 500 }, id);
    expect(status).toBe(200);
    expect(body.data).toEqual({
      executionId: id,
      startAt: time,
      endAt: null,
      status: "suspended",
      result: null,
      suspension: {
        suspendedAt: time,
        reason: "Approve 500?",
        suspendedStepIndex: 1,
        stepId: "person",
        kind: "person",
        data: { question: "yes or no" },
      },
    });
  });
});

describeInProcess("execution state", { workflows }, (server) => {
  it("shows a suspended execution with its suspension, input and context in the state", async () => {
    const id = freshId();
    await begin(server, "ask", { amount: 7 }, id, { userId: "ann", conversationId: "c1", context: { tenant: "t1" } });
    expect(await state(server, "ask", id)).toEqual({
      executionId: id,
      workflowId: "ask",
      status: "suspended",
      startAt: time,
      endAt: null,
      input: { amount: 7 },
      context: { tenant: "t1", userId: "ann", conversationId: "c1" },
      suspension: {
        suspendedAt: time,
        reason: "Approve 7?",
        stepIndex: 1,
        stepId: "person",
        kind: "person",
        data: { question: "yes or no" },
      },
    });
  });

  it("shows an execution as running, then as completed with endAt and result", async () => {
    const id = freshId();
    await beginAsync(server, "gated", { a: 1 }, id);
    expect(await state(server, "gated", id)).toEqual({
      executionId: id,
      workflowId: "gated",
      status: "running",
      startAt: time,
      endAt: null,
      input: { a: 1 },
      context: {},
    });
    await gates.reached(id);
    // Each replica is asked once: one of them drives the execution.
    const asked = hasDifference("workflow status") ? replicaCount : 1;
    const [one, all]: [string[], string[]] = [[], []];
    for (let i = 0; i < asked; i++) one.push((await server.get("/workflows/gated")).body.data.status);
    for (let i = 0; i < asked; i++) {
      const workflow = (await server.get("/workflows")).body.data.find(
        (listed: { id: string }) => listed.id === "gated",
      );
      all.push(workflow.status);
    }
    const expected = ["running", ...Array.from({ length: asked - 1 }, () => "idle")];
    expect([one.toSorted(), all.toSorted()]).toEqual([expected.toSorted(), expected.toSorted()]);
    gates.open(id);
    await expect.poll(async () => (await state(server, "gated", id)).status).toBe("completed");
    expect(await state(server, "gated", id)).toMatchObject({ endAt: time, result: ["second", "third"] });
    expect((await server.get("/workflows/gated")).body.data.status).toBe("idle");
  });

  it("answers execute with a ServeError of a step from 400 to 499, and shows its message in the state", async () => {
    const id = freshId();
    const answer = await begin(server, "teapot", {}, id);
    expect([answer.status, answer.body.error, answer.body.executionId]).toEqual([418, "I am a teapot", id]);
    expect(await state(server, "teapot", id)).toMatchObject({ status: "error", error: "I am a teapot" });
  });
});

describeInProcess("suspend", { workflows }, (server) => {
  it.each(["execute", "stream"])("suspends an execution begun by %s, whose step in flight runs once", async (how) => {
    const id = freshId();
    const waiting =
      how === "execute"
        ? begin(server, "gated", {}, id)
        : server.post("/workflows/gated/stream", { input: {}, options: { executionId: id } });
    await gates.reached(id);
    const { status, headers, body } = await server.post(path("gated", id, "suspend"), { reason: "Lunch" });
    expect(headers.get("x-execution-id")).toBe(id);
    expect((await server.get(path("gated", id, "state"))).headers.get("x-execution-id")).toBe(id);
    expect([status, body.data]).toEqual([
      200,
      { executionId: id, status: "suspended", suspension: { suspendedAt: time, reason: "Lunch" } },
    ]);
    const answer = await waiting; // at once: the step is still in flight
    const suspension = { suspendedAt: body.data.suspension.suspendedAt, reason: "Lunch", stepId: "second" };
    if (how === "execute")
      expect(answer.body.data).toMatchObject({
        status: "suspended",
        result: null,
        endAt: null,
        suspension: { ...suspension, suspendedStepIndex: 1 },
      });
    else
      expect(answer.events.slice(-2)).toMatchObject([
        { type: "workflow-suspended", suspension },
        { type: "workflow-result", status: "suspended", suspension },
      ]);
    gates.open(id);
    expect(await state(server, "gated", id)).toMatchObject({
      status: "suspended",
      suspension: { ...suspension, stepIndex: 1 },
    });
    const resumed = await server.post(path("gated", id, "resume"), { resumeData: "neither checked nor used" });
    expect(resumed.body.data).toMatchObject({ status: "completed", result: ["second", "third"] });
    expect([timesRan(id, "first"), timesRan(id, "second"), timesRan(id, "third")]).toEqual([1, 1, 1]);
  });

  it("suspends without a body, with the reason Suspended by request", async () => {
    const id = freshId();
    await beginAsync(server, "gated", {}, id);
    expect((await server.request(path("gated", id, "suspend"), { method: "POST" })).body.data.suspension.reason).toBe(
      "Suspended by request",
    );
    gates.open(id);
  });

  it("keeps an execution suspended whose step in flight fails, until the resume answers 500", async () => {
    const id = freshId();
    await beginAsync(server, "gated", { fail: true }, id);
    await gates.reached(id);
    await server.post(path("gated", id, "suspend"), {});
    gates.open(id);
    expect((await state(server, "gated", id)).status).toBe("suspended");
    const resumed = await server.post(path("gated", id, "resume"), {});
    expect([resumed.status, resumed.body.error]).toEqual([500, "Failed to execute workflow"]);
    expect(timesRan(id, "second")).toBe(1);
  });

  it("refuses a suspend of a completed or suspended execution with 400", async () => {
    const [done, waiting] = [freshId(), freshId()];
    await begin(server, "double", { n: 1 }, done);
    await begin(server, "ask", { amount: 1 }, waiting);
    for (const [workflow, id, status] of [
      ["double", done, "completed"],
      ["ask", waiting, "suspended"],
    ] as const) {
      const answer = await server.post(path(workflow, id, "suspend"), { reason: "x" });
      const error = `Execution ${id} is not running`;
      expect([answer.status, answer.body]).toEqual([400, { success: false, error, executionId: id }]);
      expect((await state(server, workflow, id)).status).toBe(status);
    }
  });

  it("refuses a suspend of an unknown execution, or one of another workflow, with 404", async () => {
    const id = freshId();
    await begin(server, "ask", { amount: 1 }, id);
    for (const answer of [
      await server.post(path("gated", "nobody", "suspend"), {}),
      await server.post(path("gated", id, "suspend"), {}),
    ]) {
      expect([answer.status, answer.body.error]).toEqual([404, expect.stringMatching(/^Execution \S+ not found$/)]);
    }
  });
});

describeInProcess("resume", { workflows }, (server) => {
  it("resumes to the result with the context, userId, input and startAt of before", async () => {
    const id = freshId();
    const first = await begin(server, "ask", { amount: 500 }, id, {
      userId: "ann",
      conversationId: "c1",
      context: { tenant: "t1" },
    });
    const { status, headers, body } = await server.post(path("ask", id, "resume"), { resumeData: { approved: true } });
    expect([status, headers.get("x-execution-id")]).toEqual([200, id]);
    expect(body.data).toEqual({
      executionId: id,
      startAt: first.body.data.startAt,
      endAt: time,
      status: "completed",
      result: {
        data: { amount: 500, times: 1, note: null, approved: true, by: null },
        input: { amount: 500 },
        context: { tenant: "t1", userId: "ann", conversationId: "c1" },
        prepared: { amount: 500, times: 1, note: null },
        idempotencyKey: `${id}/finish`,
      },
    });
    expect([timesRan(id, "prepare"), timesRan(id, "person"), timesRan(id, "finish")]).toEqual([1, 2, 1]);
  });

  it("refuses bad resume data with 400, and stays suspended", async () => {
    const id = freshId();
    await begin(server, "ask", { amount: 1 }, id);
    for (const body of [{ resumeData: { approved: "yes" } }, {}, { resumeData: null }]) {
      const answer = await server.post(path("ask", id, "resume"), body);
      expect([answer.status, answer.body.error]).toEqual([400, expect.stringMatching(/^Invalid resume data: /)]);
    }
    const { body } = await server.post(path("ask", id, "resume"), { approved: true });
    expect(body.error).toBe("Invalid resume data: resumeData is required");
    expect(await state(server, "ask", id)).toMatchObject({ status: "suspended" });
    expect(timesRan(id, "person")).toBe(1);
  });

  it("refuses a resume of an unknown, foreign, running or ended execution with 404", async () => {
    const [done, running, waiting] = [freshId(), freshId(), freshId()];
    await begin(server, "double", { n: 1 }, done);
    await beginAsync(server, "gated", {}, running);
    await begin(server, "ask", { amount: 1 }, waiting);
    for (const [workflow, id] of [
      ["double", done],
      ["gated", running],
      ["ask", "nobody"],
      ["two", waiting],
    ] as const) {
      expect((await server.post(path(workflow, id, "resume"), { resumeData: { approved: true } })).status).toBe(404);
    }
    gates.open(running);
  });

  it("goes back to an earlier step by options.stepId: it gets the data, later outputs are forgotten, keys are new", async () => {
    const id = freshId();
    await begin(server, "ask", { amount: 5 }, id);
    const back = await server.post(path("ask", id, "resume"), {
      resumeData: { approved: false },
      options: { stepId: "prepare" },
    });
    expect(back.body.data).toMatchObject({
      status: "suspended",
      suspension: { stepId: "person", suspendedStepIndex: 1 },
    });
    const done = await server.post(path("ask", id, "resume"), {
      resumeData: { approved: true },
      options: { stepId: "person" },
    });
    expect(done.body.data.result).toMatchObject({
      data: { times: 2, note: { approved: false }, approved: true },
      prepared: { times: 2 },
      idempotencyKey: `${id}/finish@1`,
    });
    expect([timesRan(id, "prepare"), timesRan(id, "person")]).toEqual([2, 3]);
  });

  it("refuses a resume from a later or unknown step with 400", async () => {
    const id = freshId();
    await begin(server, "ask", { amount: 5 }, id);
    for (const stepId of ["finish", "nobody", "person/x"]) {
      const answer = await server.post(path("ask", id, "resume"), {
        resumeData: { approved: true },
        options: { stepId },
      });
      expect([answer.status, answer.body.error]).toEqual([400, expect.stringContaining(stepId)]);
    }
  });

  it.each([
    ["first", 2],
    ["second", 1],
  ])("repeats step %s after a suspension by request, and drops what was in flight", async (stepId, runs) => {
    const id = freshId();
    await beginAsync(server, "gated", {}, id);
    await gates.reached(id);
    await server.post(path("gated", id, "suspend"), {});
    const resumed = server.post(path("gated", id, "resume"), { options: { stepId } });
    await expect.poll(() => timesRan(id, "second")).toBe(2);
    gates.open(id);
    expect((await resumed).body.data).toMatchObject({ status: "completed", result: ["second", "third"] });
    expect([timesRan(id, "first"), timesRan(id, "second"), timesRan(id, "third")]).toEqual([runs, 2, 1]);
  });
});

describeInProcess("suspension inside branches", { workflows }, (server) => {
  it("runs only the suspended branch again after a suspension in a sub-workflow in andAll in andWhen", async () => {
    const id = freshId();
    const suspended = await begin(server, "deep", {}, id);
    expect(suspended.body.data.suspension).toMatchObject({
      reason: "Approve?",
      stepId: "sub/human",
      suspendedStepIndex: 1,
    });
    expect((await server.post(path("deep", id, "resume"), { resumeData: { ok: "no" } })).status).toBe(400);
    const done = await server.post(path("deep", id, "resume"), { resumeData: { ok: true } });
    expect(done.body.data).toMatchObject({
      status: "completed",
      result: { data: [{ decided: { ok: true } }, "beside"], human: { ok: true } },
    });
    expect([timesRan(id, "sub/look"), timesRan(id, "sub/human"), timesRan(id, "beside")]).toEqual([1, 2, 1]);
  });

  it("shows two parked branches in order, and resumes them one by one", async () => {
    const id = freshId();
    const { suspension } = (await begin(server, "two", { keep: 1 }, id)).body.data;
    expect(suspension).toMatchObject({
      stepId: "left",
      pending: [
        { stepId: "left", stepIndex: 0, reason: "Ask left" },
        { stepId: "right", stepIndex: 0, reason: "Ask right" },
      ],
    });
    const second = await server.post(path("two", id, "resume"), { resumeData: "R", options: { stepId: "right" } });
    expect(second.body.data).toMatchObject({ status: "suspended", suspension: { stepId: "left" } });
    expect(second.body.data.suspension.pending).toBeUndefined();
    const done = await server.post(path("two", id, "resume"), { resumeData: "L" });
    expect(done.body.data).toMatchObject({ status: "completed", result: ["L", "R", { keep: 1 }] });
    expect([timesRan(id, "left"), timesRan(id, "right")]).toEqual([2, 2]);
  });

  it("keeps the `suspendedAt` of a branch when another one is resumed", async () => {
    const id = freshId();
    const { pending } = (await begin(server, "two", { keep: 1 }, id)).body.data.suspension;
    const { suspendedAt } = pending[1];
    await eventually(() => expect(Date.now()).toBeGreaterThan(Date.parse(suspendedAt)));
    await server.post(path("two", id, "resume"), { resumeData: "L" });
    const shown = { stepId: "right", suspendedAt };
    expect((await server.get(path("two", id, "state"))).body.data.suspension).toMatchObject(shown);
    const { items } = (await server.get(path("two", id, "steps?path=right"))).body.data;
    expect(items[0].suspension).toMatchObject({ suspendedAt });
    const { events } = await server.get(path("two", id, "stream"));
    const suspensions = events.filter(({ type }) => type === "workflow-suspended").map((event) => event["suspension"]);
    expect(suspensions).toMatchObject([{ pending: [{}, shown] }, shown]);
  });
});

describeInProcess("errors", { workflows }, (server) => {
  it.each([
    [
      "a wrong type",
      "double",
      { input: { n: "1" } },
      'Input validation failed: n: Invalid type: Expected number but received "1"',
    ],
    ["no input", "double", {}, "Input validation failed: input is required"],
    ["null", "double", { input: null }, "Input validation failed: Invalid type: Expected Object but received null"],
    ["an array without a schema", "teapot", { input: [1] }, "Input validation failed: expected an object"],
    ["text without a schema", "teapot", { input: "x" }, "Input validation failed: expected an object"],
  ])("refuses an invalid input with 400, and nothing begins: %s", async (_, workflow, body, error) => {
    for (const action of ["execute", "stream"]) {
      const id = freshId();
      const answer = await server.post(`/workflows/${workflow}/${action}`, { ...body, options: { executionId: id } });
      expect([answer.status, answer.body]).toEqual([400, { success: false, error }]);
      expect((await server.get(path(workflow, id, "state"))).status).toBe(404);
    }
  });

  it.each([
    ["executionId", { executionId: "no spaces" }],
    ["executionId", { executionId: "x".repeat(129) }],
    ["userId", { userId: 1 }],
    ["conversationId", { conversationId: {} }],
    ["context", { context: [] }],
  ])("refuses a bad options.%s with 400", async (key, options) => {
    const answer = await server.post("/workflows/double/execute", { input: { n: 1 }, options });
    expect([answer.status, answer.body.error]).toEqual([
      400,
      expect.stringMatching(new RegExp(`^Invalid request body: options.${key}`)),
    ]);
  });

  it("refuses an execution id that exists with 409, whatever its workflow", async () => {
    const id = freshId();
    await begin(server, "double", { n: 1 }, id);
    for (const action of ["double/execute", "double/stream", "gated/execute"]) {
      const answer = await server.post(`/workflows/${action}`, { input: { n: 1 }, options: { executionId: id } });
      expect([answer.status, answer.body.error]).toEqual([409, `Execution ${id} already exists`]);
    }
  });
});

describeServer("stream events", { config: { workflows } }, (server) => {
  const common = (id: string) => ({ executionId: id, timestamp: time });

  it("streams the start and end of the workflow and its steps, and workflow-result last", async () => {
    const id = freshId();
    const { headers, events } = await server.post("/workflows/double/stream", {
      input: { n: 2 },
      options: { executionId: id },
    });
    expect([headers.get("content-type"), headers.get("x-execution-id")]).toEqual(["text/event-stream", id]);
    const step = (from: string, stepIndex: number, stepType: string) => ({
      ...common(id),
      from,
      stepIndex,
      stepType,
      attempt: 1,
    });
    expect(events).toEqual([
      { type: "workflow-start", ...common(id), seq: 1 },
      { type: "step-start", ...step("times", 0, "andThen"), seq: 2 },
      { type: "step-complete", ...step("times", 0, "andThen"), seq: 3, status: "success" },
      { type: "step-start", ...step("look", 1, "andTap"), seq: 4 },
      { type: "step-complete", ...step("look", 1, "andTap"), seq: 5, status: "success" },
      { type: "workflow-complete", ...common(id), seq: 6 },
      { type: "workflow-result", ...common(id), status: "completed", result: { n: 4 }, startAt: time, endAt: time },
    ]);
  });

  it("streams workflow-suspended, then workflow-result; a resume sends no second workflow-start", async () => {
    const id = freshId();
    const { events } = await server.post("/workflows/ask/stream", {
      input: { amount: 1 },
      options: { executionId: id },
    });
    const suspension = {
      suspendedAt: time,
      reason: "Approve 1?",
      stepIndex: 1,
      stepId: "person",
      kind: "person",
      data: { question: "yes or no" },
    };
    expect(events.slice(-2)).toEqual([
      { type: "workflow-suspended", ...common(id), seq: 5, suspension },
      {
        type: "workflow-result",
        ...common(id),
        status: "suspended",
        result: null,
        startAt: time,
        endAt: null,
        suspension,
      },
    ]);
    await server.post(path("ask", id, "resume"), { resumeData: { approved: true } });
    const all = (await server.get(path("ask", id, "stream"))).events;
    expect(all.filter(({ type }) => type === "workflow-start")).toHaveLength(1);
    expect(all.slice(0, 5)).toEqual(events.slice(0, 5));
  });

  it("streams nested steps with their paths, and skipped ones", async () => {
    const id = freshId();
    const { events } = await server.post("/workflows/two/stream", { input: {}, options: { executionId: id } });
    expect(events.filter(({ type }) => type === "step-complete").map(({ from, status }) => [from, status])).toEqual([
      ["never", "skipped"],
    ]);
    const deepId = freshId();
    const inner = await server.post("/workflows/deep/stream", { input: {}, options: { executionId: deepId } });
    expect(inner.events.filter(({ type }) => type === "step-start").map(({ from }) => from)).toEqual([
      "start",
      "when",
      "all",
      "sub",
      "sub/look",
      "beside",
      "sub/human",
    ]);
  });
});

describeInProcess("beyond the spec", { workflows }, (server) => {
  it("lists executions of a workflow newest first, by status, in pages", async () => {
    const ids = ["l1", "l2", "l3", "l4", "l5"];
    for (const id of ids) await begin(server, "two", {}, id);
    await server.post(path("two", ids[0]!, "cancel"), {});
    const list = async (query: string) => (await server.get(`/workflows/two/executions${query}`)).body.data;
    const first = await list("?limit=2");
    expect(first.items.map(({ executionId }: any) => executionId)).toEqual([ids[4], ids[3]]);
    const second = await list(`?limit=2&cursor=${first.nextCursor}`);
    const third = await list(`?limit=2&cursor=${second.nextCursor}`);
    expect([...second.items, ...third.items].map(({ executionId }: any) => executionId)).toEqual([
      ids[2],
      ids[1],
      ids[0],
    ]);
    expect(third.nextCursor).toBeNull();
    expect((await list("?status=error")).items.map(({ executionId }: any) => executionId)).toEqual([ids[0]]);
    expect((await list("")).items).toHaveLength(5);
    expect(await list("?status=completed")).toEqual({ items: [], nextCursor: null });
    expect((await server.get("/workflows/gone/executions")).status).toBe(404);
    for (const query of ["?limit=0", "?limit=201", "?limit=x", "?status=idle", "?cursor=x"]) {
      expect((await server.get(`/workflows/two/executions${query}`)).status).toBe(400);
    }
  });

  it("cancels a running execution, whose waiting call gets 409, and a suspended one; an ended one gets 400", async () => {
    const id = freshId();
    const waiting = begin(server, "gated", {}, id);
    await gates.reached(id);
    const answer = await server.post(path("gated", id, "cancel"), { reason: "Enough" });
    expect([answer.status, answer.body.data]).toEqual([
      200,
      {
        executionId: id,
        startAt: time,
        endAt: time,
        status: "error",
        result: null,
        cancellation: { cancelledAt: time, reason: "Enough" },
      },
    ]);
    const refused = await waiting;
    expect([refused.status, refused.body.error, refused.headers.get("x-execution-id")]).toEqual([
      409,
      `Execution ${id} was cancelled`,
      id,
    ]);
    await gates.reached(`${id} aborted`); // on Restate, soon after the answer
    gates.open(id);
    expect(await state(server, "gated", id)).toMatchObject({ status: "error", cancellation: { reason: "Enough" } });
    expect((await server.post(path("gated", id, "cancel"), {})).status).toBe(400);
    expect(timesRan(id, "third")).toBe(0);

    const parked = freshId();
    await begin(server, "ask", { amount: 1 }, parked);
    expect((await server.post(path("ask", parked, "cancel"), {})).body.data.cancellation.reason).toBe(
      "Cancelled by request",
    );
    expect((await server.post(path("ask", parked, "resume"), { resumeData: { approved: true } })).status).toBe(404);
    const { events } = await server.get(path("ask", parked, "stream"));
    expect(events.slice(-2)).toMatchObject([
      { type: "workflow-error", cancellation: { reason: "Cancelled by request" } },
      { type: "workflow-result", status: "error" },
    ]);
    expect(events.filter(({ seq }) => seq).map(({ seq }) => seq)).toEqual(
      events.slice(0, -1).map((_, index) => index + 1),
    );
  });

  it("attaches to stored and live events: from every possible cut each seq once, with id lines", async () => {
    const id = freshId();
    await beginAsync(server, "gated", {}, id);
    await gates.reached(id);
    const live = server.get(path("gated", id, "stream"));
    const ahead = server.get(path("gated", id, "stream?after=99"));
    gates.open(id);
    const { text, events } = await live;
    expect((await ahead).events).toEqual([expect.objectContaining({ type: "workflow-result" })]);
    expect(events.at(-1)).toMatchObject({ type: "workflow-result", status: "completed" });
    const seqs = events.slice(0, -1).map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    expect(text.match(/^id: \d+$/gm)).toHaveLength(seqs.length);
    for (const after of [0, ...seqs, 99]) {
      const byHeader = await server.get(path("gated", id, "stream"), { headers: { "last-event-id": String(after) } });
      const byQuery = await server.get(path("gated", id, `stream?after=${after}`));
      for (const answer of [byHeader, byQuery]) {
        expect(answer.events.slice(0, -1)).toEqual(events.slice(after, -1));
        expect(answer.events.at(-1)).toMatchObject({ type: "workflow-result" });
      }
    }
    expect((await server.get(path("gated", id, "stream"), { headers: { "last-event-id": "x" } })).status).toBe(400);
    expect((await server.get(path("gated", id, "stream?after=-1"))).status).toBe(400);
    expect((await server.get(path("gated", "nobody", "stream"))).status).toBe(404);
  });
});
