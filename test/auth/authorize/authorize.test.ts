// Each of these changes makes tests of this file fail: `authorize` is asked after the body is read; it is not asked again
// for the step that a body names; a refused action on an execution that the caller may read is 404; the `authorize` of the
// config is asked although the workflow has its own; the argument is not frozen.
import { join } from "node:path";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import {
  andThen,
  defineAgent,
  defineWorkflow,
  embedded,
  type Authorize,
  type AuthorizeRequest,
  type Config,
} from "agentserve";
import { echoModel } from "agentserve/models";
import * as v from "valibot";
import { createProject } from "../../harness/project.ts";
import { describeServer, startServer, type TestServer } from "../../harness/server.ts";
import { by, expense, toPlain, trusting } from "./world.ts";

const asked: AuthorizeRequest[] = [];
afterEach(() => void asked.splice(0));

/** The recipe of docs/auth.md: managers approve, but not their own expenses. */
const approval: Authorize = (request) => {
  asked.push(request);
  const { action, user, execution } = request;
  if (action === "workflow.execute") return user !== undefined;
  if (!execution || !user) return false;
  if (action === "execution.resume") return user["role"] === "manager" && !execution.isOwn;
  return execution.isOwn || user["role"] === "manager";
};

const config: Config = { workflows: [expense], auth: { ...trusting, ownership: true }, authorize: approval };
const ada = { id: "ada", role: "employee" };
const max = { id: "max", role: "manager" };

async function begin(server: TestServer, user: object, workflow = "expense"): Promise<string> {
  const { body } = await server.post(`/workflows/${workflow}/execute`, { input: { amount: 7 } }, by(user));
  expect(body.data.status).toBe("suspended");
  return `/workflows/${workflow}/executions/${body.data.executionId}`;
}
const approve = { resumeData: { approved: true } };
const answer = ({ status, body }: { status: number; body: any }) => [status, body.error ?? body.data.status];

describeServer("an approval by authorize", { config, only: ["start"] }, (server) => {
  it("lets a manager approve, and not the requester, a colleague or an anonymous caller", async () => {
    const path = await begin(server, ada);
    const id = path.split("/").at(-1);
    const unknown = [404, `Execution ${id} not found`];
    expect(answer(await server.post(`${path}/resume`, approve, by(ada)))).toEqual([403, "Forbidden"]);
    expect(answer(await server.post(`${path}/resume`, approve, by("bob")))).toEqual(unknown);
    expect(answer(await server.post(`${path}/resume`, approve))).toEqual(unknown);
    expect(answer(await server.get(`${path}/state`, by(ada)))).toEqual([200, "suspended"]);
    expect(answer(await server.get(`${path}/state`, by("bob")))).toEqual(unknown);
    const { body } = await server.post(`${path}/resume`, approve, by(max));
    expect(body.data).toMatchObject({ status: "completed", result: { approved: true, by: "max" } });
  });

  it("does not let a manager approve an expense of their own", async () => {
    const path = await begin(server, max);
    expect(answer(await server.post(`${path}/resume`, approve, by(max)))).toEqual([403, "Forbidden"]);
    expect(answer(await server.post(`${path}/resume`, approve, by({ ...max, id: "eve" })))).toEqual([200, "completed"]);
  });

  it("compares users by their ids, which may be numbers", async () => {
    const seven = { id: 7, role: "manager" };
    const path = await begin(server, seven);
    expect(answer(await server.post(`${path}/resume`, approve, by(seven)))).toEqual([403, "Forbidden"]);
    expect(answer(await server.post(`${path}/resume`, approve, by({ id: 8, role: "manager" })))[0]).toBe(200);
  });

  it("asks authorize with the user, the execution and the step, before the body is read", async () => {
    const path = await begin(server, ada);
    asked.splice(0);
    const broken = { method: "POST", body: "{", headers: { ...by("bob").headers, "content-type": "application/json" } };
    expect((await server.request(`${path}/resume`, broken)).status).toBe(404);
    const execution = {
      executionId: path.split("/").at(-1),
      workflowId: "expense",
      status: "suspended",
      isOwn: false,
      userId: "ada",
      user: ada,
      context: {},
      startAt: expect.stringMatching(/Z$/),
      input: { amount: 7 },
      suspension: {
        stepId: "approve",
        stepIndex: 0,
        kind: "person",
        reason: "Approve?",
        suspendedAt: expect.stringMatching(/Z$/),
        data: { amount: 7 },
      },
    };
    expect(asked.map(toPlain)).toEqual([
      { action: "execution.resume", user: { id: "bob" }, workflowId: "expense", stepId: "approve", execution },
      { action: "execution.read", user: { id: "bob" }, workflowId: "expense", execution },
    ]);
  });
});

describe("authorize of a workflow and of an agent", () => {
  it("asks the authorize of a workflow or agent, and that of the config if there is none", async () => {
    const allow = () => true;
    const workflows = [
      expense,
      defineWorkflow({ id: "free", authorize: allow }).andThen({ id: "one", execute: () => 1 }),
    ];
    const agents = [
      defineAgent({ id: "closed", instructions: "", model: echoModel() }),
      defineAgent({ id: "free", instructions: "", model: echoModel(), authorize: allow }),
    ];
    const server = await startServer("in process", {
      config: { workflows, agents, auth: trusting, authorize: () => false },
    });
    onTestFinished(() => server.close());
    const refused = [403, "Forbidden"];
    for (const verb of ["execute", "stream"])
      expect(answer(await server.post(`/workflows/expense/${verb}`, { input: {} }, by("ada")))).toEqual(refused);
    expect((await server.post("/workflows/free/execute", { input: {} }, by("ada"))).body.data.result).toBe(1);
    for (const verb of ["text", "stream", "object", "stream-object", "chat"])
      expect(answer(await server.post(`/agents/closed/${verb}`, {}, by("ada")))).toEqual(refused);
    expect((await server.post("/agents/free/text", { input: "Hi" }, by("ada"))).status).toBe(200);
    expect(answer(await server.get("/api/logs"))).toEqual(refused);
    expect(answer(await server.get("/metrics", by("ada")))).toEqual(refused);
  });

  it("keeps the authorize of a workflow through the chain, replaces it by with(), and refuses anything but a function", () => {
    const allow: Authorize = () => true;
    const refuse: Authorize = () => false;
    expect(() => defineWorkflow({ id: "w", authorize: true as never })).toThrow(
      "Workflow w: authorize: expected a function",
    );
    expect(defineWorkflow({ id: "w", authorize: allow }).andTap({ id: "tap", execute() {} }).authorize).toBe(allow);
    const agent = defineAgent({ id: "a", instructions: "", model: echoModel(), authorize: allow });
    expect(agent.with({ instructions: "Hi" }).authorize).toBe(allow);
    expect(agent.with({ authorize: refuse }).authorize).toBe(refuse);
  });

  it("applies ownership to workflows without authorize if the config has none", async () => {
    const shared = defineWorkflow({ id: "shared", authorize: () => true }).andThen({
      id: "ask",
      execute: ({ suspend }) => suspend("?"),
    });
    const server = await startServer("in process", {
      config: { workflows: [expense, shared], auth: { ...trusting, ownership: true } },
    });
    onTestFinished(() => server.close());
    const own = await begin(server, ada);
    expect((await server.get(`${own}/state`, by("bob"))).status).toBe(404);
    expect((await server.get("/workflows/expense/executions", by("bob"))).body.data.items).toEqual([]);
    expect((await server.get("/workflows/expense/executions", by(ada))).body.data.items).toHaveLength(1);
    const open = await begin(server, ada, "shared");
    expect((await server.get(`${open}/state`, by("bob"))).status).toBe(200);
    expect((await server.get("/workflows/shared/executions", by("bob"))).body.data.items).toHaveLength(1);
  });
});

describe("an execution with long values", () => {
  it("asks authorize about a listed execution with markers in place of long values", async () => {
    const long = "x".repeat(20_000);
    const seen: unknown[] = [];
    const authorize: Authorize = ({ action, execution, user }) => {
      if (action !== "execution.read") return true;
      seen.push([execution!.input, execution!.context]);
      return execution!.user?.["team"] === user?.["team"];
    };
    const quick = defineWorkflow({ id: "quick" }).andThen({ id: "one", execute: () => 1 });
    const server = await startServer("in process", { config: { workflows: [quick], auth: trusting, authorize } });
    onTestFinished(() => server.close());
    const body = { input: { long }, options: { context: { long } } };
    await server.post("/workflows/quick/execute", body, by({ id: "ada", team: "blue" }));
    const count = async (team: string) =>
      (await server.get("/workflows/quick/executions", by({ id: "bob", team }))).body.data.items.length;
    expect([await count("blue"), await count("red")]).toEqual([1, 0]);
    const marker = { $truncated: true, bytes: JSON.stringify({ long }).length };
    expect(seen).toEqual([
      [marker, marker],
      [marker, marker],
    ]);
  });
});

describe("an execution of a workflow that no longer exists", () => {
  it("asks the authorize of the config about executions of a removed workflow", async () => {
    const backend = embedded({ path: join(createProject({}), "data.db") });
    const authorize: Authorize = ({ user }) => user?.["id"] === "keeper";
    const gone = defineWorkflow({ id: "gone", authorize: () => true }).andThen({
      id: "ask",
      execute: ({ suspend }) => suspend("?"),
    });
    const before = await startServer("in process", {
      config: { backend, auth: trusting, workflows: [gone], authorize },
    });
    const path = await begin(before, ada, "gone");
    expect((await before.get(`${path}/state`, by("bob"))).status).toBe(200);
    await before.close();
    const server = await startServer("in process", { config: { backend, auth: trusting, authorize } });
    onTestFinished(() => server.close());
    const unknown = [404, "Workflow gone not found"];
    for (const method of ["GET state", "POST cancel"]) {
      const [verb, name] = method.split(" ");
      const init = { method: verb!, ...(verb === "POST" && { json: {} }) };
      const ask = async (user: string) => answer(await server.request(`${path}/${name}`, { ...init, ...by(user) }));
      expect(await ask("bob")).toEqual(unknown);
      expect(await ask("ada")).toEqual([403, "Forbidden"]); // she started it
      expect((await ask("keeper"))[0]).toBe(200);
    }
    expect(answer(await server.get("/workflows/gone/executions", by("bob")))).toEqual(unknown);
    expect((await server.get("/workflows/gone/executions", by("keeper"))).body.data.items).toHaveLength(1);
  });
});

describe("with several branches that wait", () => {
  const branch = (id: string) =>
    andThen({ id, resumeSchema: v.boolean(), execute: ({ resumeData, suspend }) => resumeData ?? suspend(id) });
  const both = defineWorkflow({
    id: "both",
    authorize: ({ user, stepId }) => !stepId || stepId === user?.["id"],
  }).andAll({
    id: "all",
    steps: [branch("legal"), branch("finance")],
  });

  it("resumes each of several waiting branches only for a caller who may resume that one", async () => {
    const server = await startServer("in process", { config: { workflows: [both], auth: trusting } });
    onTestFinished(() => server.close());
    const path = await begin(server, { id: "ada" }, "both");
    const resume = async (user: string, stepId?: string) =>
      answer(await server.post(`${path}/resume`, { resumeData: true, options: { stepId } }, by(user)));
    for (const stepId of [undefined, "legal", "finance"])
      expect(await resume("ada", stepId)).toEqual([403, "Forbidden"]);
    expect(await resume("finance")).toEqual([403, "Forbidden"]); // the first one that waits is that of legal
    expect(await resume("finance", "legal")).toEqual([403, "Forbidden"]);
    expect(await resume("legal", "finance")).toEqual([403, "Forbidden"]);
    expect(await resume("legal", "all")).toEqual([403, "Forbidden"]);
    expect(await resume("finance", "finance")).toEqual([200, "suspended"]);
    expect(await resume("finance", "legal")).toEqual([403, "Forbidden"]);
    expect(await resume("legal")).toEqual([200, "completed"]);
  });
});
