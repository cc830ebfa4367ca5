import { beforeAll, expect, it } from "vitest";
import { defineAgent, defineWorkflow } from "agentserve";
import { echoModel } from "agentserve/models";
import { describeServer } from "../harness/server.ts";

const workflows = [
  defineWorkflow({ id: "asks" }).andThen({
    id: "ask",
    execute: ({ suspend, resumeData }) => resumeData ?? suspend("more?"),
  }),
];
const agents = [defineAgent({ id: "helper", instructions: "Help.", model: echoModel() })];

describeServer("large numbers", { config: { workflows, agents }, only: ["start"] }, (server) => {
  const send = (path: string, body: string) =>
    server.request(path, { method: "POST", body, headers: { "content-type": "application/json" } });
  const large = "the number is out of range (±1.8e308)";

  beforeAll(() => server.post("/workflows/asks/execute", { input: {}, options: { executionId: "x" } }));

  it.each([
    ["/workflows/asks/execute", '{"input":{},"options":{"context":{"a":{"b":[1,1e999]}}}}', "options.context.a.b.1"],
    ["/workflows/asks/execute", '{"input":{"n":-1E+400}}', "input.n"],
    ["/workflows/asks/stream", `{"input":{"n":${"9".repeat(400)}}}`, "input.n"],
    ["/workflows/asks/stream", `{"input":{"n":${"9".repeat(308)}e1}}`, "input.n"],
    ["/workflows/asks/executions/x/resume", '{"resumeData":1e999}', "resumeData"],
    ["/agents/helper/text", '{"input":"hi","options":{"context":{"n":1e999}}}', "options.context.n"],
    [
      "/agents/helper/object",
      '{"input":"hi","schema":{"type":"object","maxProperties":1e999}}',
      "schema.maxProperties",
    ],
  ])("refuses a number that is too large for JavaScript with its place: POST %s %s", async (path, body, place) => {
    expect(await send(path, body)).toMatchObject({
      status: 400,
      body: { success: false, error: `Invalid JSON body: ${place}: ${large}` },
    });
  });

  it("refuses a body that is a number too large for JavaScript", async () => {
    const { status, body } = await send("/workflows/asks/execute", "1e999");
    expect([status, body.error]).toEqual([400, `Invalid JSON body: ${large}`]);
  });

  it("accepts a large number inside a text, and one close to the limit", async () => {
    const body = `{"input":{"text":"1e999","n":1.7e308,"hash":"3e1234"},"options":{"executionId":"near-${server.target.replace(" ", "-")}"}}`;
    expect(await send("/workflows/asks/execute", body)).toMatchObject({ status: 200 });
  });
});
