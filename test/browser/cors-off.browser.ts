import { handleCors } from "h3";
import { expect, it } from "vitest";
import { jwtAuth, type Config } from "agentserve";
import { expectReadable, gates, greeted, greeting, post, run, secret, workflows, type Failing } from "./fixtures.ts";
import { describeStage } from "./stage.ts";

const off: Config = { workflows, auth: jwtAuth({ secret }), server: { cors: false } };
const hosted = (friend: string): Config => ({
  ...off,
  configureApp(app) {
    app.use((event) => {
      const done = handleCors(event, {
        origin: [friend],
        credentials: true,
        allowHeaders: ["authorization", "content-type"],
        exposeHeaders: ["x-request-id", "x-execution-id", "www-authenticate"],
      });
      return done === false ? undefined : done;
    });
    app.get("/crash", () => {
      throw new Error("a detail that nobody may see");
    });
  },
});
const errors: Failing[] = [
  [401, "Authentication required", run, post({ input: {} }, {}), { "www-authenticate": "Bearer" }],
  [400, "Input validation failed: ", run, post({ input: {} })],
  [404, "Workflow nope not found", "/workflows/nope"],
  [404, "Not found", "/nope"],
  [405, "Method not allowed", "/workflows", { method: "DELETE" }],
  [413, "Request body too large", run, post("x".repeat(3_000_000))],
  [500, "Failed to execute workflow", "/workflows/failing/execute", post({ input: {} })],
  [500, "Internal server error", "/crash"],
];

describeStage("cors: false with the host's own middleware", hosted, (stage) => {
  it("lets the page that the host's own CORS allows run a protected workflow, after a preflight", async () => {
    const tab = await stage.visit(stage.friend);
    expect(await tab.read(stage.server + run, greeting)).toMatchObject({
      status: 200,
      headers: { "x-request-id": expect.any(String), "x-execution-id": expect.any(String) },
      body: { data: { result: { text: "Hello Bob", by: "ada" } } },
    });
    expect(stage.methods()).toEqual(["OPTIONS", "POST"]);
  });

  it("lets the page that the host's own CORS allows read a stream while it arrives", async () => {
    const tab = await stage.visit(stage.friend);
    const gate = `off ${stage.target}`;
    const stream = await tab.stream(`${stage.server}/workflows/gated/stream`, post({ input: { gate } }));
    expect(await stream.until('"step-start"')).not.toContain('"step-complete"');
    gates.open(gate);
    await stream.until('"workflow-result"');
  });

  it("lets the page that the host's own CORS allows read status, message and headers of every error", async () => {
    const tab = await stage.visit(stage.friend);
    await expectReadable(tab, stage.server, errors);
  });

  it("shows nothing to a page that the host's own CORS does not allow, and runs nothing for it", async () => {
    const tab = await stage.visit(stage.stranger);
    greeted.length = 0;
    expect(await tab.read(`${stage.server}/workflows`)).toEqual({ blocked: "MissingAllowOriginHeader" });
    expect(await tab.read(stage.server + run, greeting)).toEqual({ blocked: "PreflightMissingAllowOriginHeader" });
    expect(stage.methods()).toEqual(["GET", "OPTIONS"]);
    expect(greeted).toEqual([]);
  });
});

describeStage(
  "cors: false alone",
  () => off,
  (stage) => {
    it("shows nothing to another origin with cors: false, and runs nothing for it", async () => {
      const tab = await stage.visit(stage.friend);
      greeted.length = 0;
      expect(await tab.read(`${stage.server}/workflows`)).toEqual({ blocked: "MissingAllowOriginHeader" });
      expect(await tab.read(stage.server + run, greeting)).toEqual({ blocked: "PreflightMissingAllowOriginHeader" });
      expect(stage.methods()).toEqual(["GET", "OPTIONS"]);
      expect(greeted).toEqual([]);
    });

    it("runs a workflow for a page of its own origin with cors: false, without a preflight", async () => {
      const tab = await stage.visit(`${stage.server}/doc`);
      stage.arrived.length = 0;
      expect(await tab.read(run, greeting)).toMatchObject({ type: "basic", status: 200 });
      expect(stage.methods()).toEqual(["POST"]);
    });
  },
);
