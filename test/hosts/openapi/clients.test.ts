import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createToken, defineAgent, defineWorkflow, jwtAuth, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import { startServer, type TestServer } from "../../harness/server.ts";
import { readCommand } from "./commands.ts";
import { programs } from "./programs.ts";
import { createWorkshop, type Workshop } from "./workshop.ts";

const secret = "a secret of at least thirty-two bytes";
const order = defineWorkflow({
  id: "order.approve",
  input: v.object({ amount: v.number() }),
  resumeSchema: v.object({ approved: v.boolean() }),
  result: v.object({ amount: v.number(), approved: v.boolean() }),
}).andThen({
  id: "decide",
  execute({ data, resumeData, suspend }) {
    if (data.amount < 100) return { ...data, approved: true };
    return resumeData ? { ...data, ...resumeData } : suspend("Approve?");
  },
});
const config: Config = {
  workflows: [order],
  agents: [defineAgent({ id: "helper", model: echoModel(), instructions: "Hello" })],
  auth: jwtAuth({ secret }),
  configureApp: (app) => void app.get("/hello", () => ({ hello: "world" })),
};
const summary = {
  list: [["order.approve", 1]],
  amount: 50,
  suspended: "suspended",
  approved: false,
  later: [202, "running"],
  page: 1,
  text: expect.stringContaining("Hello"),
  wrong: [400, expect.stringMatching(/^Input validation failed: /)],
  anonymous: [401, "Authentication required"],
  custom: { hello: "world" },
};

describe("a generated client runs against a server", () => {
  let server: TestServer;
  let workshop: Workshop;
  beforeAll(async () => {
    server = await startServer("start", { config });
    workshop = createWorkshop();
    const token = await createToken({ sub: "ada" }, secret, { expiresIn: "1h" });
    workshop.write("env.ts", `export const baseUrl = "${server.url}";\nexport const token = "${token}";\n`);
  });
  afterAll(async () => {
    workshop.close();
    await server.close();
  });

  async function runProgram(tool: string): Promise<unknown> {
    workshop.write("program.ts", programs[tool]!);
    workshop.write("tsconfig.one.json", JSON.stringify({ extends: "./tsconfig.json", files: ["program.ts"] }));
    expect(await workshop.run("tsc", "-p", "tsconfig.one.json")).toMatchObject({ stdout: "", code: 0 });
    const { stdout, stderr } = await workshop.run("node", "built/program.js");
    expect(stdout, stderr).toMatch(/^\{/);
    return JSON.parse(stdout);
  }

  it("runs a client of openapi-typescript and openapi-fetch against a server", async () => {
    const { code, stderr } = await workshop.run(...readCommand("openapi-typescript", `${server.url}/doc`));
    expect(code, stderr).toBe(0);
    expect(await runProgram("openapi-typescript")).toEqual({ ...summary, firstSeq: 3 });
  });

  it("runs a client of Hey API against a server, with event streams", async () => {
    const { code, stderr } = await workshop.run(...readCommand("openapi-ts", `${server.url}/doc`));
    expect(code, stderr).toBe(0);
    const streamed = expect.stringContaining("Hello");
    expect(await runProgram("openapi-ts")).toEqual({ ...summary, firstSeq: 3, streamed });
  });

  it("runs a client of orval against a server, with a base URL", async () => {
    const output = { target: "client.ts", client: "fetch", baseUrl: server.url };
    const settings = { api: { input: `${server.url}/doc`, output } };
    workshop.write("orval.config.mjs", `export default ${JSON.stringify(settings)};\n`);
    const { code, stderr } = await workshop.run("orval", "--config", "orval.config.mjs");
    expect(code, stderr).toBe(0);
    expect(await runProgram("orval")).toEqual(summary);
  });
});
