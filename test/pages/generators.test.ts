import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { createToken, defineAgent, defineWorkflow, jwtAuth, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import { describeServer, startTestServer } from "../harness/server.ts";
import { expectResolved, expectValid, operationsOf, resolve } from "./document.ts";
import { hostile } from "./hostile.ts";

const secret = "a secret of at least thirty-two bytes";
const parameterOf = (operation: any, name: string) => operation.parameters.find((one: any) => one.name === name);

describeServer("/doc for generators", { config: hostile, only: ["in process"] }, (server) => {
  it("/doc has names for generators that are identifiers, and unique in every style", async () => {
    const { body: doc } = await server.get("/doc");
    expectValid(doc);
    const ids = operationsOf(doc).map(({ operationId }) => operationId);
    expect(ids).toEqual(expect.arrayContaining(["execute-workflow-a.b", "execute-workflow-a:b-2", "ask-agent-a.b"]));
    expect(Object.keys(doc.components.schemas)).toEqual(
      expect.arrayContaining(["Error", "ExecutionResult", "TextResult", "WorkflowABInput", "WorkflowABInput2"]),
    );
  });

  it("/doc describes each operation in other words than its summary", async () => {
    const { body: doc } = await server.get("/doc");
    for (const { operationId, summary, description } of operationsOf(doc)) {
      expect(description, operationId).toMatch(/\S/);
      expect(description, operationId).not.toBe(summary);
    }
  });

  it("/doc refers only to whole components", async () => {
    const { body: doc } = await server.get("/doc");
    for (const ref of expectResolved(doc)) expect(ref).toMatch(/^#\/components\/(schemas|responses)\/\w+$/);
    expect(JSON.stringify(doc)).not.toMatch(/"(\$defs|definitions)":/);
  });

  it("/doc requires the body of each operation that reads one", async () => {
    const { body: doc } = await server.get("/doc");
    const bodies = operationsOf(doc).filter(({ requestBody, tags }) => requestBody && tags[0] !== "Your routes");
    expect(bodies.length).toBeGreaterThan(200);
    for (const { operationId, requestBody } of bodies) expect([operationId, requestBody.required]).toContain(true);
  });

  it("/doc declares numbers of a URL and of a header as numbers with bounds", async () => {
    const { body: doc } = await server.get("/doc");
    const list = doc.paths["/workflows/{id}/executions"].get;
    expect(parameterOf(list, "limit").schema).toEqual({ type: "integer", minimum: 1, maximum: 200 });
    expect(parameterOf(doc.paths["/api/logs"].get, "limit").schema).toMatchObject({ type: "integer", maximum: 1_000 });
    const attach = doc.paths["/workflows/{id}/executions/{executionId}/stream"].get;
    expect(parameterOf(attach, "after").schema).toMatchObject({ type: "integer", minimum: 0 });
    expect(parameterOf(attach, "Last-Event-ID")).toMatchObject({ in: "header", required: false });
    const [seq, end] = parameterOf(attach, "Last-Event-ID").schema.anyOf;
    expect(seq).toMatchObject({ type: "integer", minimum: 0 });
    expect(end).toMatchObject({ type: "string", pattern: String.raw`^\d{1,15}\.end$` });
    const statuses = ["1", "200", "0", "201", "1.5", "x", ""].map(
      async (limit) => (await server.get(`/workflows/w1/executions?limit=${limit}`)).status,
    );
    expect(await Promise.all(statuses)).toEqual([200, 200, 400, 400, 400, 400, 400]);
  });

  it("reads the Last-Event-ID that /doc declares", async () => {
    const { body } = await server.post("/workflows/w1/execute", { input: { n: 1 } });
    const path = `/workflows/w1/executions/${body.data.executionId}/stream`;
    const seqOf = async (id: string) => (await server.get(path, { headers: { "last-event-id": id } })).events[0]?.seq;
    expect([await seqOf("2"), await seqOf("")]).toEqual([3, 1]);
    expect(await server.get(path, { headers: { "last-event-id": "x" } })).toMatchObject({
      status: 400,
      body: { error: "Invalid Last-Event-ID: expected the seq of an event" },
    });
  });

  it("/doc declares Prefer where it is understood, and nowhere else", async () => {
    const { body: doc } = await server.get("/doc");
    const ids = operationsOf(doc)
      .filter((one) => parameterOf(one, "Prefer"))
      .map(({ operationId }) => operationId);
    const own = ids.filter((id: string) => /^((execute|resume)-workflow|ask-agent)-/.test(id));
    const resumable = operationsOf(doc).filter(({ operationId }) => operationId.startsWith("resume-workflow-"));
    expect(own.length).toBe(hostile.workflows.length + resumable.length + hostile.agents.length);
    expect(ids.filter((id: string) => !own.includes(id))).toEqual([
      "post-agents-by-id-text",
      "post-agents-by-id-object",
      "post-approvals-by-approvalId",
      "post-workflows-by-id-execute",
      "post-workflows-by-id-executions-by-executionId-resume",
      "post-workflows-by-id-executions-by-executionId-retry",
      "post-workflows-by-id-executions-by-executionId-fork",
    ]);
  });

  it("/doc declares the result of a workflow, which is null until it has ended", async () => {
    const { body: doc } = await server.get("/doc");
    const resultOf = (path: string) => {
      const { data } = doc.paths[path].post.responses[200].content["application/json"].schema.properties;
      return resolve(doc, data.$ref).properties.result;
    };
    const result = resultOf("/workflows/a.b/execute");
    expect(result.anyOf[1]).toEqual({ type: "null" });
    expect(resolve(doc, result.anyOf[0].$ref)).toMatchObject({ properties: { n: { type: "number" } } });
    expect(resultOf("/workflows/asking/executions/{executionId}/resume")).toEqual(
      resultOf("/workflows/asking/execute"),
    );
    expect(resultOf("/workflows/class/execute")).toEqual({});
    expect(resultOf("/workflows/{id}/execute")).toEqual({});
  });

  it("/doc has an operation for each agent, with an example that it accepts", async () => {
    const { body: doc } = await server.get("/doc");
    const { post } = doc.paths["/agents/agent.7/text"];
    expect(post).toMatchObject({ operationId: "ask-agent-agent.7", tags: ["Your agents"] });
    expect(post.description).toContain("process.exit");
    const { schema, example } = post.requestBody.content["application/json"];
    expect(schema).toEqual({ $ref: "#/components/schemas/AgentRequest" });
    expect(await server.post("/agents/agent.7/text", example)).toMatchObject({ status: 200 });
    const size = JSON.stringify(post).length;
    console.info(`an agent takes ${size} bytes of the document`);
    expect(size).toBeLessThan(2_000);
  });

  it("/doc lists custom routes whose pattern OpenAPI can express", async () => {
    const { body: doc } = await server.get("/doc");
    const listed = Object.entries<any>(doc.paths).flatMap(([path, methods]) =>
      Object.entries<any>(methods)
        .filter(([, { tags }]) => tags[0] === "Your routes")
        .map(([method, { summary }]) => [`${method} ${path}`, summary]),
    );
    expect(Object.fromEntries(listed)).toEqual({
      "get /hello": "GET /hello",
      "post /orders/{order}/pay": "POST /orders/:order/pay",
      "put /workflows/{id}": "PUT /workflows/:workflow",
      "get /doc/a/b": "GET /doc/a/b",
      "get /doc/a-b": "GET /doc/a-b",
      ...Object.fromEntries(
        ["get", "post", "put", "patch", "delete"].map((method) => [
          `${method} /all/{path}`,
          `${method.toUpperCase()} /all/**`,
        ]),
      ),
      "get /files/{path}": "GET /files/**:path",
      "get /optional/{a}": "GET /optional/:a?",
      "get /many/{rest}": "GET /many/:rest+",
      "get /any/{segment}": "GET /any/*",
      "get /number/{id}": String.raw`GET /number/:id(\d+)`,
      "delete /mixed/{id}.json": "DELETE /mixed/:id.json",
    });
    expect(parameterOf(doc.paths["/files/{path}"].get, "path").description).toContain("slashes");
    expect(doc.paths["/orders/{order}/pay"].post.requestBody.content).toEqual({ "application/json": { schema: {} } });
  });
});

describe("what needs a token is in the document only for callers with one", () => {
  const workflows = [defineWorkflow({ id: "w" }).andThen({ id: "only", execute: ({ data }) => data })];
  const agents = ["a", "b"].map((id) => defineAgent({ id, model: echoModel(), instructions: "Hello" }));
  const configureApp: Config["configureApp"] = (app) => {
    app.get("/open", () => "open");
    app.get("/closed/:id", () => "closed");
    app.post("/hooks/a-secret-in-the-path", () => "hidden", { meta: { doc: false } });
  };
  it.each<[string, string[], string[]]>([
    ["agents", ["GET /agents"], ["/agents/a/text", "/agents/b/text"]],
    ["one agent", ["GET /agents/b"], ["/agents/b/text"]],
    ["a custom route", ["GET /closed/*"], ["/closed/{id}"]],
    ["a part of a custom route", ["GET /closed/1"], ["/closed/{id}"]],
  ])("/doc shows %s only to callers with a token where the policy needs one", async (_, protect, hidden) => {
    const auth = jwtAuth({ secret, protect });
    const server = await startTestServer("in process", { config: { workflows, agents, auth, configureApp } });
    const authorization = `Bearer ${await createToken({ sub: "ada" }, secret, { expiresIn: "1h" })}`;
    const known = (await server.get("/doc", { headers: { authorization } })).body;
    const unknown = (await server.get("/doc")).body;
    const own = ["/agents/a/text", "/agents/b/text", "/workflows/w/execute", "/open", "/closed/{id}"];
    expect(Object.keys(known.paths)).toEqual(expect.arrayContaining(own));
    expect(own.filter((path) => !unknown.paths[path])).toEqual(hidden);
    expect(JSON.stringify(known)).not.toContain("a-secret-in-the-path");
    expect(known.paths["/open"].get.security).toEqual([{}, { bearer: [] }]);
  });

  it("/doc declares the access of a custom route", async () => {
    const auth = jwtAuth({ secret, protect: ["GET /closed/*"] });
    const server = await startTestServer("in process", { config: { auth, configureApp } });
    const authorization = `Bearer ${await createToken({ sub: "ada" }, secret, { expiresIn: "1h" })}`;
    const { paths } = (await server.get("/doc", { headers: { authorization } })).body;
    expect(paths["/closed/{id}"].get.security).toEqual([{ bearer: [] }]);
    expect(Object.keys(paths["/closed/{id}"].get.responses)).toContain("401");
  });
});

it("warns about a result that JSON Schema cannot express, when the config is loaded", async () => {
  const workflow = defineWorkflow({ id: "dated", result: v.date() }).andThen({ id: "only", execute: () => new Date() });
  const server = await startTestServer("in process", { config: { workflows: [workflow] } });
  expect(server.logs.map(({ message }) => message)).toEqual([
    expect.stringMatching(/^workflow dated: result cannot be fully converted to JSON Schema: /),
  ]);
});
