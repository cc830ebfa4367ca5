import { expect, it } from "vitest";
import { jwtAuth } from "agentserve";
import { testRows } from "../harness/rows.ts";
import { describeServer, startServer } from "../harness/server.ts";

describeServer("GET /doc", { rows: testRows, only: ["in process"] }, (server) => {
  it("is the bare OpenAPI document, with what a row says: access, parameters, body, responses", async () => {
    const { body: doc } = await server.get("/doc");
    expect(doc).toMatchObject({
      openapi: "3.1.0",
      info: { title: "agentserve", version: expect.stringMatching(/^\d+\./) },
    });
    expect(Object.keys(doc.paths)).toEqual(expect.arrayContaining(["/workflows", "/workflows/{id}", "/ws", "/doc"]));
    const error = (description: string) => ({
      description,
      content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
    });
    expect(doc.paths["/test/items/{id}"].get).toEqual({
      summary: "Shows its parameters",
      parameters: [
        { name: "id", in: "path", required: true, schema: { type: "string" } },
        { name: "limit", in: "query", required: false, schema: { type: "string", pattern: "^\\d+$" } },
      ],
      responses: {
        200: {
          description: "OK",
          content: {
            "application/json": {
              schema: {
                type: "object",
                properties: {
                  success: { const: true },
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
        400: error("The request is malformed"),
        500: error("Something failed on the server"),
      },
    });
    const { post } = doc.paths["/test/echo"];
    expect(post.requestBody.content["application/json"].schema.properties).toMatchObject({ n: { type: "number" } });
    expect(Object.keys(post.responses)).toEqual(["200", "202", "400", "413", "415", "500"]);
    expect(doc.paths["/test/wait"].get.security).toBeUndefined();
    expect(doc.paths["/test/socket"].get.parameters).toMatchObject([{ name: "level", in: "query", required: false }]);
    expect(Object.keys(doc.paths["/test/events/{kind}"].get.responses)).toContain("503");
  });

  it("resolves every $ref inside itself", async () => {
    const { text, body: doc } = await server.get("/doc");
    const refs = [...text.matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => path!);
    expect(refs).toContain("components/schemas/Step");
    for (const ref of refs) {
      const target = ref.split("/").reduce((value: any, key) => value?.[key], doc);
      expect(target, ref).toBeTypeOf("object");
    }
  });
});

it("says of each endpoint whether a token is needed, as the config has it", async () => {
  const auth = jwtAuth({
    secret: "a secret of at least thirty-two bytes",
    publicRoutes: ["POST /agents/open/*", "POST /workflows/:id/execute"],
    protect: ["GET /workflows"],
  });
  const server = await startServer("in process", { config: { auth } });
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
  await server.close();
});
