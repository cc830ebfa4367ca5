import { expect, it, vi } from "vitest";
import * as v from "valibot";
import {
  createToken,
  defineAgent,
  defineWorkflow,
  embedded,
  jwtAuth,
  type Config,
  type SystemRuntime,
} from "agentserve";
import { echoModel } from "agentserve/models";
import { toProject } from "../../src/config/load.ts";
import { toRoutes } from "../../src/server/assemble.ts";
import { createProject } from "../harness/project.ts";
import { describeServer } from "../harness/server.ts";

const secret = "a secret for tests, at least 32 bytes";
const order = defineWorkflow({ id: "order", input: v.object({ amount: v.number() }) }).andThen({
  id: "approve",
  execute: ({ resumeData, suspend, context }) => resumeData ?? suspend(`Approve, ${String(context.get("userId"))}?`),
});
const echo = defineAgent({ id: "echo", instructions: "Repeat.", model: echoModel() });
let system: SystemRuntime;

const config: Config = {
  workflows: [order],
  agents: [echo],
  auth: jwtAuth({ secret, ownership: true, publicRoutes: ["POST /hook", "GET /mine"] }),
  configureApp(app, { runtime }) {
    system = runtime;
    app.post("/orders", async (event) => {
      const { executionId } = await event.context.runtime.start("order", await event.req.json());
      event.res.status = 202;
      return { executionId };
    });
    app.post("/hook", async (event) => {
      const { executionId } = await runtime.start(order, { amount: 1 }, { as: { id: "bob" } });
      await event.context.runtime.start(order, { amount: 1 }, { executionId: `anonymous-${executionId}` });
      return { executionId };
    });
    app.get("/mine", async (event) => {
      const { items } = await event.context.runtime.executions.list();
      return items.map(({ executionId }) => executionId);
    });
    app.get("/one/:id", async (event) => {
      const handle = await event.context.runtime.executions.get(event.context.params!["id"]!);
      return handle.state();
    });
    app.get("/as", (event) =>
      (event.context.runtime as SystemRuntime).start(order, { amount: 1 }, { as: { id: "bob" } }),
    );
    app.get("/asked", (event) => event.context.runtime.ask(echo, "hello"));
  },
};

describeServer("runtime in custom routes", { config, only: ["start"] }, (server) => {
  const tokens = (sub: string) => createToken({ sub, id: sub }, secret);
  const as = async (sub: string) => ({ headers: { authorization: `Bearer ${await tokens(sub)}` }, custom: true });

  it("starts an execution for the caller of a custom route", async () => {
    const ada = await as("ada");
    const answer = await server.post("/orders", { amount: 7 }, ada);
    expect(answer.status).toBe(202);
    const { executionId } = answer.body;
    const state = await server.get(`/workflows/order/executions/${executionId}/state`, { headers: ada.headers });
    expect(state.body.data).toMatchObject({ context: { userId: "ada" }, input: { amount: 7 } });
    const bob = await as("bob");
    const foreign = await server.get(`/workflows/order/executions/${executionId}/state`, { headers: bob.headers });
    expect(foreign.status).toBe(404);
    expect((await server.get(`/one/${executionId}`, ada)).body).toMatchObject({ executionId });
    expect((await server.get(`/one/${executionId}`, bob)).status).toBe(404);
    expect((await server.get("/mine", ada)).body).toContain(executionId);
    expect((await server.get("/mine", bob)).body).not.toContain(executionId);
  });

  it("starts an execution for a named user with the server's runtime", async () => {
    const { body } = await server.post("/hook", {}, { custom: true });
    const bob = await as("bob");
    expect((await server.get("/mine", bob)).body).toContain(body.executionId);
    const state = await (await system.executions.get(`anonymous-${body.executionId}`)).state();
    expect(state.context).toEqual({});
    expect((await server.get("/mine", { custom: true })).body).toEqual([]);
  });

  it("answers a custom route with what its runtime throws, unchanged", async () => {
    const ada = await as("ada");
    const wrong = await server.post("/orders", { amount: "7" }, ada);
    expect([wrong.status, wrong.body]).toEqual([
      400,
      { success: false, error: expect.stringMatching(/^Input validation failed: amount: /) },
    ]);
    const as0 = await server.get("/as", ada);
    expect([as0.status, as0.body.error]).toEqual([
      400,
      "Invalid options: as: this runtime acts for its own user only; use runtime.asServer()",
    ]);
  });

  it("asks an agent from a custom route", async () => {
    expect((await server.get("/asked", await as("ada"))).text).toContain("hello");
  });

  it("refuses ids of the server's own executions, at every endpoint", async () => {
    const ada = await as("ada");
    for (const own of ["child:x", "schedule:nightly:2030-01-01T00:00:00Z"]) {
      const options = { executionId: own };
      const answers = [
        await server.post("/workflows/order/execute", { input: { amount: 1 }, options }, { headers: ada.headers }),
        await server.post("/workflows/order/stream", { input: { amount: 1 }, options }, { headers: ada.headers }),
      ];
      for (const answer of answers)
        expect([answer.status, answer.body.error]).toEqual([
          400,
          "Invalid request body: options.executionId: expected an id that does not begin with child: or schedule:",
        ]);
      const state = await server.get(`/workflows/order/executions/${own}/state`, { headers: ada.headers });
      expect(state.status).toBe(404);
    }
  });
});

it("opens no store to list routes, also if configureApp uses the runtime", async () => {
  const path = `${createProject({})}/data.db`;
  const refused = vi.fn();
  const listed: Config = {
    workflows: [order],
    backend: embedded({ path }),
    configureApp(app, { runtime }) {
      app.get("/x", () => 1);
      runtime.start(order, { amount: 1 }).catch(refused);
    },
  };
  const routes = toRoutes(toProject(listed));
  expect(routes.map((route) => route.path)).toContain("/x");
  await vi.waitFor(() => expect(refused).toHaveBeenCalledWith(expect.objectContaining({ status: 503 })));
});
