import { Validator, type Schema } from "@cfworker/json-schema";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { defineWorkflow, jwtAuth, type AuthProvider, type Config } from "agentserve";
import { testRows } from "../harness/rows.ts";
import { describeServer, startTestServer } from "../harness/server.ts";
import { expectResolved, expectValid, operationsOf, resolve } from "./document.ts";
import { City, ValibotTree, ZodTree } from "./hostile.ts";

describeServer("GET /doc", { rows: testRows, only: ["in process"] }, (server) => {
  it("/doc is a bare OpenAPI document with the access, parameters, body and responses of each route", async () => {
    const { body: doc } = await server.get("/doc");
    expect(doc).toMatchObject({
      openapi: "3.1.0",
      info: { title: "agentserve", version: expect.stringMatching(/^\d+\./) },
    });
    expect(Object.keys(doc.paths)).toEqual(
      expect.arrayContaining(["/workflows", "/workflows/{id}", "/ws", "/", "/ui", "/doc"]),
    );
    const error = (name: string, description: string) => {
      const $ref = `#/components/responses/${name}`;
      const content = { "application/json": { schema: { $ref: "#/components/schemas/Error" } } };
      expect(resolve(doc, $ref)).toEqual({ description, content });
      return { $ref };
    };
    expect(doc.paths["/test/items/{id}"].get).toEqual({
      operationId: "get-test-items-by-id",
      tags: ["Health"],
      summary: "Shows its parameters",
      parameters: [
        { name: "id", in: "path", required: true, schema: { type: "string" } },
        { name: "limit", in: "query", required: false, schema: { type: "integer", minimum: 0, maximum: 10 } },
      ],
      responses: {
        200: {
          description: "OK",
          content: {
            "application/json": {
              schema: {
                type: "object",
                properties: {
                  success: { type: "boolean", const: true },
                  data: {
                    type: "object",
                    properties: { id: { type: "string" }, limit: { anyOf: [{ type: "number" }, { type: "null" }] } },
                    required: ["id", "limit"],
                  },
                },
                required: ["success", "data"],
              },
            },
          },
        },
        400: error("BadRequest", "The request is invalid"),
        414: error("URITooLong", "The path is too long"),
        500: error("InternalServerError", "Internal server error"),
      },
    });
    const { post } = doc.paths["/test/echo"];
    expect(post.requestBody.content["application/json"].schema.properties).toMatchObject({ n: { type: "number" } });
    expect(Object.keys(post.responses)).toEqual(["200", "202", "400", "413", "415", "500", "503"]);
    expect(doc.paths["/test/wait"].get.security).toBeUndefined();
    expect(doc.paths["/test/socket"].get.parameters).toMatchObject([{ name: "level", in: "query", required: false }]);
    expect(Object.keys(doc.paths["/test/events/{kind}"].get.responses)).toContain("503");
  });

  it.each(["text", "stream", "object", "stream-object", "chat"])(
    "/doc says of the 409 of %s that the answer continues on another replica",
    async (name) => {
      const { body: doc } = await server.get("/doc");
      const { $ref } = doc.paths[`/agents/{id}/${name}`].post.responses[409];
      expect(resolve(doc, $ref)).toMatchObject({
        description: expect.stringContaining("the answer continues on another replica"),
      });
    },
  );

  it("/doc resolves every $ref inside itself", async () => {
    const { body: doc } = await server.get("/doc");
    expect(expectResolved(doc)).toContain("#/components/schemas/Step");
  });

  it("/doc gives each operation a name and a tag, and each tag a description", async () => {
    const { body: doc } = await server.get("/doc");
    const tagged = operationsOf(doc).flatMap(({ tags }) => tags);
    expect(doc.tags.map(({ name }: any) => name)).toEqual([
      "Agents",
      "Workflows",
      "Logs",
      "WebSockets",
      "Pages",
      "Health",
    ]);
    expect(new Set(tagged)).toEqual(new Set(doc.tags.map(({ name }: any) => name)));
    expect(doc.paths["/"].get).toMatchObject({ operationId: "get-overview", tags: ["Pages"] });
    expect(Object.keys(doc.paths["/ui"].get.responses[200].content)).toEqual([
      "text/html",
      "text/css",
      "text/javascript",
    ]);
    expectValid(doc);
  });
});

describe("a workflow in the document", () => {
  const echo = (id: string, input: any) =>
    defineWorkflow({ id, input, name: `Workflow ${id}`, purpose: "Says *it* again" }).andThen({
      id: "only",
      execute: ({ data }) => data,
    });
  const asking = defineWorkflow({ id: "asking", resumeSchema: v.object({ ok: v.boolean() }) })
    .andThen({ id: "first", execute: ({ resumeData, suspend }) => resumeData ?? suspend("?") })
    .andThen({
      id: "second",
      resumeSchema: z.object({ tree: ZodTree }),
      execute: ({ resumeData, suspend }) => resumeData ?? suspend("?"),
    });
  const foreign = {
    "~standard": {
      version: 1,
      vendor: "mine",
      validate: (value: unknown) => ({ value }),
      jsonSchema: { input: () => foreignJson, output: () => foreignJson },
    },
  };
  const foreignJson = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $id: "https://stranger.test/schema",
    type: "object",
    properties: {
      $id: { type: "string" },
      $ref: { $ref: "#/properties/a~1b/items" },
      "a/b": { type: "array", items: { type: "number" } },
      outside: { $ref: "https://stranger.test/other" },
      missing: { $ref: "#/$defs/nothing" },
      data: { const: { $ref: "#/none", $id: "kept" } },
    },
    required: ["$ref", "data"],
  };
  const workflows = [
    echo("a:b", v.object({ n: v.number() })),
    echo("a_b", v.object({ text: v.string() })),
    echo("valibot", v.object({ tree: ValibotTree })),
    echo("zod", ZodTree),
    echo("shared", z.object({ from: City, to: City })),
    echo("foreign", foreign),
    defineWorkflow({ id: "any" }).andThen({ id: "only", execute: ({ data }) => data }),
    asking,
  ];

  describeServer("GET /doc", { config: { workflows }, only: ["in process"] }, (server) => {
    it("/doc has an operation for each workflow, with its input", async () => {
      const { body: doc } = await server.get("/doc");
      const { post } = doc.paths["/workflows/a:b/execute"];
      expect(post).toMatchObject({
        operationId: "execute-workflow-a:b",
        tags: ["Your workflows"],
        summary: "Workflow a:b",
        description: String.raw`Says \*it\* again`,
        parameters: [{ name: "Prefer", in: "header", required: false, schema: { type: "string" } }],
      });
      const { schema } = post.requestBody.content["application/json"];
      expect(schema.required).toEqual(["input"]);
      expect(schema.properties.options).toEqual(
        doc.paths["/workflows/{id}/execute"].post.requestBody.content["application/json"].schema.properties.options,
      );
      expect(resolve(doc, schema.properties.input.$ref)).toMatchObject({ properties: { n: { type: "number" } } });
      const other = doc.paths["/workflows/a_b/execute"].post.requestBody.content["application/json"].schema;
      expect(resolve(doc, other.properties.input.$ref)).toMatchObject({ properties: { text: { type: "string" } } });
      const generic = doc.paths["/workflows/{id}/execute"].post.responses;
      expect(Object.keys(post.responses)).toEqual(Object.keys(generic));
      expect(post.responses[200]).toEqual(generic[200]);
    });

    it("/doc has the resumeSchema of a workflow", async () => {
      const { body: doc } = await server.get("/doc");
      const { post } = doc.paths["/workflows/asking/executions/{executionId}/resume"];
      expect(post).toMatchObject({ operationId: "resume-workflow-asking", summary: "Resume asking" });
      expect(post.parameters).toMatchObject([
        { name: "executionId", in: "path" },
        { name: "Prefer", in: "header" },
      ]);
      const { anyOf } = post.requestBody.content["application/json"].schema.properties.resumeData;
      const kinds = anyOf.map(({ $ref }: any) => Object.keys(resolve(doc, $ref).properties));
      expect(kinds).toEqual([["ok"], ["tree"]]);
      expect(Object.keys(doc.paths)).not.toContain("/workflows/any/executions/{executionId}/resume");
    });

    it("/doc keeps the references inside of a workflow's schema, and none that leads outside", async () => {
      const { text, body: doc } = await server.get("/doc");
      expectValid(doc);
      expectResolved(doc);
      expect(text).not.toContain("json-schema.org");
      expect(text).not.toContain("stranger.test");
      const check = (id: string, value: unknown) => {
        const { schema } = doc.paths[`/workflows/${id}/execute`].post.requestBody.content["application/json"];
        const { components } = doc;
        return new Validator({ ...schema, components } as Schema, "2020-12").validate({ input: value }).valid;
      };
      const tree = { name: "a", children: [{ name: "b", children: [{ name: "c" }] }] };
      const wrong = { name: "a", children: [{ name: "b", children: [{ name: 1 }] }] };
      expect([check("valibot", { tree }), check("valibot", { tree: wrong })]).toEqual([true, false]);
      expect([check("zod", tree), check("zod", wrong)]).toEqual([true, false]);
      const city = { zip: "1" };
      expect([check("shared", { from: city, to: city }), check("shared", { from: city, to: {} })]).toEqual([
        true,
        false,
      ]);
      const data = { $ref: "#/none", $id: "kept" };
      expect([check("foreign", { $ref: 1, data }), check("foreign", { $ref: "1", data })]).toEqual([true, false]);
      expect([check("foreign", { $ref: 1, data: 1 }), check("foreign", { $ref: 1, data, $id: 1 })]).toEqual([
        false,
        false,
      ]);
    });

    it("/doc has an example input that the workflow accepts", async () => {
      const { body: doc } = await server.get("/doc");
      for (const { id } of workflows) {
        const { example } = doc.paths[`/workflows/${id}/execute`].post.requestBody.content["application/json"];
        const answer = await server.post(`/workflows/${id}/execute`, example);
        expect([id, answer.status, answer.body.error]).toEqual([id, 200, undefined]);
      }
    });
  });

  it("/doc has the access of each workflow's own path", async () => {
    const auth = jwtAuth({
      secret: "a secret of at least thirty-two bytes",
      publicRoutes: ["POST /workflows/any/execute"],
      protect: ["POST /workflows/asking/executions/*"],
    });
    const server = await startTestServer("in process", { config: { workflows, auth } });
    const { paths } = (await server.get("/doc")).body;
    const of = (path: string) => [paths[path].post.security, "401" in paths[path].post.responses];
    expect(of("/workflows/any/execute")).toEqual([[{}, { bearer: [] }], false]);
    expect(of("/workflows/a:b/execute")).toEqual([[{ bearer: [] }], true]);
    expect(of("/workflows/asking/executions/{executionId}/resume")).toEqual([[{ bearer: [] }], true]);
  });
});

it("/doc says of each endpoint whether it needs a token", async () => {
  const auth = jwtAuth({
    secret: "a secret of at least thirty-two bytes",
    publicRoutes: ["POST /agents/open/*", "POST /workflows/:id/execute"],
    protect: ["GET /workflows"],
  });
  const server = await startTestServer("in process", { config: { auth } });
  const { paths, components } = (await server.get("/doc")).body;
  expect(components.securitySchemes).toEqual({ bearer: { type: "http", scheme: "bearer" } });
  const needed = [{ bearer: [] }];
  const optional = [{}, { bearer: [] }];
  const of = (path: string, method: string) => {
    const { security, responses } = paths[path][method];
    return [security, "401" in responses];
  };
  expect(of("/agents/{id}/text", "post")).toEqual([optional, true]); // open for one agent
  expect(of("/workflows/{id}/stream", "post")).toEqual([needed, true]);
  expect(of("/workflows/{id}/execute", "post")).toEqual([optional, false]);
  expect(of("/workflows", "get")).toEqual([needed, true]);
  expect(of("/agents", "get")).toEqual([optional, false]);
  expect(of("/ws", "get")).toEqual([optional, false]);
});

describe("the 403 of a foreign origin is in the document where it can happen", () => {
  const session: AuthProvider = { type: "session", extractToken: () => "ada", verifyToken: (id) => ({ id }) };
  const named = { origin: "http://friend.test" };
  /** The summaries of the routes that a provider without `authorize` closes. */
  const needsAuthorize = /with the results of this one|^Start an execution of a schedule|^(Pause|Resume) a .*schedule$/;
  it.each<[string, Config, boolean]>([
    ["cors names an origin", { server: { cors: named } }, true],
    ["cors has a function for origins", { server: { cors: { origin: () => undefined } } }, true],
    ["cors is omitted", {}, false],
    ["cors allows every origin", { server: { cors: { origin: ["*"] } } }, false],
    ["the host handles cross-origin requests itself", { server: { cors: false } }, false],
    ["a provider has its own extractToken", { auth: session }, true],
    ["a provider has its own extractToken, and cors names an origin", { auth: session, server: { cors: named } }, true],
    ["a provider has its own extractToken, and cors is false", { auth: session, server: { cors: false } }, false],
    ["a provider reads the Authorization header", { auth: jwtAuth({ secret: "s".repeat(32) }) }, false],
  ])("/doc has the 403 of a foreign origin only where it can happen: %s", async (_, config, isRefused) => {
    const workflows = [defineWorkflow({ id: "any" }).andThen({ id: "only", execute: ({ data }) => data })];
    const server = await startTestServer("in process", { config: { ...config, workflows }, rows: testRows });
    const { paths } = (await server.get("/doc")).body;
    const operations = Object.values<any>(paths).flatMap((methods) => Object.entries<any>(methods));
    const takesUser = ({ parameters }: any): boolean => parameters.some(({ name }: any) => name === "userId");
    const hasOwn = (one: any): boolean => "101" in one.responses || takesUser(one); // the 403 of another user
    const others = operations.filter(
      ([, one]) => takesUser(one) && /conversation|model calls/i.test(one.summary) && !/tokens/.test(one.summary),
    );
    expect(others.length).toBeGreaterThan(4);
    for (const [method, { responses, summary }] of others)
      expect("403" in responses, summary).toBe(config.auth !== undefined || (isRefused && method !== "get"));
    for (const [method, { responses, summary }] of operations.filter(([, one]) => !hasOwn(one)))
      expect("403" in responses, `${method} ${summary}`).toBe(
        (isRefused && method !== "get") || (config.auth !== undefined && needsAuthorize.test(summary)),
      );
    // The client fails if `/doc` does not list the status.
    const headers = { origin: "http://evil.test", "sec-fetch-site": "cross-site" };
    const { status } = await server.post("/workflows/any/execute", { input: {} }, { headers });
    expect(status === 403).toBe(isRefused);
  });
});
