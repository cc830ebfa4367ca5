import { expect, it } from "vitest";
import { defineWorkflow, type Authorize, type AuthorizeRequest, type Config } from "agentserve";
import { startTestServer, type TestServer } from "../../harness/server.ts";
import { by, expense, trusting } from "./world.ts";

const refusal = "Forbidden: forks need authorize, see docs/auth.md";
const at = (id: string, workflow = "expense"): string => `/workflows/${workflow}/executions/${id}`;

/** Starts a server with an execution of Ada that waits for its approval. */
async function open(config: Config, workflows: string[] = ["expense"]): Promise<TestServer> {
  const server = await startTestServer("in process", { config: { workflows: [expense], ...config } });
  for (const workflow of workflows) {
    const body = { input: { amount: 5 }, options: { executionId: workflow } };
    expect((await server.post(`/workflows/${workflow}/execute`, body, by("ada"))).status).toBe(200);
  }
  return server;
}
async function fork(server: TestServer, user: string | undefined, id = "expense", body: object = {}) {
  const answer = await server.post(`${at(id, id)}/fork`, body, by(user));
  return [answer.status, answer.body.error];
}

it.each([
  ["without ownership", trusting, [403, refusal], [403, refusal]],
  ["with ownership", { ...trusting, ownership: true }, [403, refusal], [404, "Execution expense not found"]],
])("refuses forks under a provider and no authorize, %s", async (_, auth, own, foreign) => {
  const server = await open({ auth });
  for (const body of [{}, { fromStep: "approve" }, { input: { amount: 9 } }, { fromStep: "nowhere" }])
    expect(await fork(server, "ada", "expense", body)).toEqual(own);
  expect(await fork(server, "bob")).toEqual(foreign);
  expect(await fork(server, undefined)).toEqual([401, "Authentication required"]);
  const { items } = (await server.get("/executions", by("ada"))).body.data;
  expect(items).toHaveLength(1); // no fork has begun
});

it("refuses the forks of an anonymous caller on a public route", async () => {
  const auth = { ...trusting, publicRoutes: ["ALL /workflows/*"] };
  const server = await open({ auth });
  expect(await fork(server, undefined)).toEqual([403, refusal]);
});

it("lets the authorize of a workflow decide about its forks, and refuses those of other workflows", async () => {
  const authorize: Authorize = ({ action, user }) => action !== "execution.fork" || user?.["id"] === "ada";
  const guarded = defineWorkflow({ id: "guarded", authorize }).andThen({
    id: "wait",
    execute: ({ suspend }) => suspend("Go on?"),
  });
  const server = await open({ auth: trusting, workflows: [expense, guarded] }, ["expense", "guarded"]);
  expect(await fork(server, "ada", "guarded")).toEqual([200, undefined]);
  expect(await fork(server, "bob", "guarded")).toEqual([403, "Forbidden"]);
  expect(await fork(server, "ada")).toEqual([403, refusal]);
});

it("asks workflow.execute as well about a fork with another input", async () => {
  const asked: AuthorizeRequest[] = [];
  const authorize: Authorize = (request) => {
    asked.push(request);
    return request.action !== "workflow.execute" || request.user?.["role"] === "manager";
  };
  const manager = by({ id: "grace", role: "manager" });
  const server = await startTestServer("in process", { config: { workflows: [expense], auth: trusting, authorize } });
  const options = { executionId: "expense" };
  await server.post("/workflows/expense/execute", { input: { amount: 5 }, options }, manager);
  asked.length = 0;
  expect(await fork(server, "ada", "expense", { input: { amount: 9 } })).toEqual([403, "Forbidden"]);
  expect(asked.map(({ action, workflowId }) => [action, workflowId])).toEqual([
    ["execution.fork", "expense"],
    ["workflow.execute", "expense"],
  ]);
  expect(await fork(server, "ada", "expense", {})).toEqual([200, undefined]);
  const answer = await server.post(`${at("expense")}/fork`, { input: { amount: 9 } }, manager);
  expect(answer.body.data.suspension.data).toEqual({ amount: 9 });
});

it("answers `mayFork` and `mayResume` in the state on request, as the routes would", async () => {
  const access = async (server: TestServer, user: string | undefined) => {
    const { data } = (await server.get(`${at("expense")}/state?include=access`, by(user))).body;
    return [data.mayFork, data.mayResume];
  };
  const owned = await open({ auth: { ...trusting, ownership: true } });
  expect(await access(owned, "ada")).toEqual([false, true]);
  const authorize: Authorize = ({ action, user }) => action !== "execution.fork" || user?.["id"] === "grace";
  const asked = await open({ auth: trusting, authorize });
  expect(await access(asked, "ada")).toEqual([false, true]);
  expect(await access(asked, "grace")).toEqual([true, true]);
  const anyone = await open({});
  expect(await access(anyone, undefined)).toEqual([true, true]);
  expect((await anyone.get(`${at("expense")}/state`)).body.data).not.toHaveProperty("mayFork");
  await anyone.post(`${at("expense")}/resume`, { resumeData: { approved: true } });
  expect(await access(anyone, undefined)).toEqual([true, undefined]);
  expect((await anyone.get(`${at("expense")}/state?include=values`)).status).toBe(400);
});

it("retries without an authorize under a provider: a retry repeats only what has failed", async () => {
  let isBroken = true;
  const fails = defineWorkflow({ id: "fails" }).andThen({
    id: "one",
    execute() {
      if (isBroken) throw new Error("broken");
      return 1;
    },
  });
  const server = await startTestServer("in process", { config: { workflows: [fails], auth: trusting } });
  const options = { executionId: "fails" };
  expect((await server.post("/workflows/fails/execute", { input: {}, options }, by("ada"))).status).toBe(500);
  isBroken = false;
  expect((await server.post(`${at("fails", "fails")}/retry`, {}, by("ada"))).body.data.result).toBe(1);
});
