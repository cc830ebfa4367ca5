import { Writable } from "node:stream";
import { createConsola } from "consola";
import { pino } from "pino";
import { describe, expect, it } from "vitest";
import winston from "winston";
import { createServer, defineWorkflow, type Config } from "agentserve";
import { chosenBackend } from "../harness/backends.ts";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";

const talk = defineWorkflow({ id: "talk" }).andThen({
  id: "say",
  execute({ logger }) {
    for (const level of ["trace", "debug", "info", "warn", "error", "fatal"] as const)
      logger[level](`${level} it is`, { n: 1, token: "hunter2hunter2" });
    throw new TypeError("at the end", { cause: new Error("the cause") });
  },
});
const common = { workflowId: "talk", executionId: "e1", stepId: "say" };

/** Runs the workflow on a server with this logger. */
async function run(logger: NonNullable<Config["logger"]>): Promise<void> {
  const server = createServer({ workflows: [talk], logger, backend: chosenBackend.create() });
  const body = JSON.stringify({ input: {}, options: { executionId: "e1" } });
  const headers = { "content-type": "application/json" };
  await server.fetch(new Request("http://localhost/workflows/talk/execute", { method: "POST", headers, body }));
  await server.close();
}
function sink(): { lines: Record<string, unknown>[]; stream: Writable } {
  const lines: Record<string, unknown>[] = [];
  const write = (chunk: Buffer, _: unknown, done: () => void) => {
    for (const line of String(chunk).split("\n").filter(Boolean)) lines.push(JSON.parse(line));
    done();
  };
  return { lines, stream: new Writable({ write }) };
}

describe("a logger of the host's own", () => {
  it("logs to pino, which takes the data first", async () => {
    const { lines, stream } = sink();
    await run(pino({ level: "trace" }, stream));
    expect(lines.map(({ level, msg }) => [level, msg])).toEqual([
      [10, "trace it is"],
      [20, "debug it is"],
      [30, "info it is"],
      [40, "warn it is"],
      [50, "error it is"],
      [60, "fatal it is"],
      [50, "Step failed"],
      [20, "Execution failed"],
      [20, "Request completed"],
    ]);
    expect(lines[0]).toMatchObject({ ...common, data: { n: 1, token: "[redacted]" } });
    expect(lines[6]).toMatchObject({
      ...common,
      error: expect.stringMatching(/TypeError: at the end[^]*the cause/),
    });
    expect(lines[7]).toMatchObject({ ...common, error: "at the end", data: { ms: expect.any(Number) } });
    const request = { method: "POST", route: "/workflows/:id/execute", status: 500, ms: expect.any(Number) };
    expect(lines[8]).toMatchObject({ requestId: expect.any(String), data: request });
  });

  it("logs to winston, which knows fewer levels", async () => {
    const { lines, stream } = sink();
    const transports = [new winston.transports.Stream({ stream })];
    await run(winston.createLogger({ level: "silly", format: winston.format.json(), transports }));
    expect(lines.map(({ level, message }) => [level, message])).toEqual([
      ["debug", "trace it is"],
      ["debug", "debug it is"],
      ["info", "info it is"],
      ["warn", "warn it is"],
      ["error", "error it is"],
      ["error", "fatal it is"],
      ["error", "Step failed"],
      ["debug", "Execution failed"],
      ["debug", "Request completed"],
    ]);
    expect(lines[0]).toMatchObject({ ...common, data: { n: 1, token: "[redacted]" } });
  });

  it("logs to consola", async () => {
    const seen: unknown[][] = [];
    const reporters = [{ log: ({ type, args }: { type: string; args: unknown[] }) => void seen.push([type, ...args]) }];
    await run(createConsola({ level: 5, reporters }));
    expect(seen.map(([type, message]) => [type, message])).toContainEqual(["fatal", "fatal it is"]);
    expect(seen[0]).toEqual(["trace", "trace it is", { ...common, data: { n: 1, token: "[redacted]" } }]);
  });

  it("refuses a logger without info, warn and error", () => {
    expect(() => createServer({ logger: { info() {} } as never })).toThrow(
      "config: logger: expected a logger with info(), warn() and error(), found an object",
    );
  });
});

describe.each(["dev", "start"])("the log of agentserve %s", (command) => {
  it("prints one JSON record per line to a stderr that is not a terminal, from info on and without secrets", async () => {
    const cwd = createProject({
      "agents.config.ts": `import { defineConfig, defineWorkflow } from "agentserve";
        const talk = defineWorkflow({ id: "talk" }).andThen({ id: "say", execute({ logger }) {
          logger.debug("Quiet");
          logger.info("Saying", { key: process.env.SOME_API_KEY, header: "Bearer abcdefghijkl" });
          throw new Error("with " + process.env.SOME_API_KEY);
        } });
        export default defineConfig({ workflows: [talk], server: { port: 0, cors: false } });`,
    });
    const env = { ...process.env, SOME_API_KEY: "not-like-any-other-key" };
    const child = agentserve([command, "--data", ":memory:"], { cwd, env });
    const [base] = await child.waitFor(/http:\/\/\S+:(\d+)/);
    const headers = { "content-type": "application/json" };
    await fetch(`${base}/workflows/talk/execute`, { method: "POST", headers, body: '{"input":{}}' });
    const kept = (await (await fetch(`${base}/api/logs`)).json()) as { data: { message: string }[] };
    const isDev = command === "dev";
    const request = isDev ? ["Request completed"] : [];
    expect(kept.data.map(({ message }) => message)).toEqual(["Quiet", "Saying", "Step failed", ...request]);
    child.process.kill("SIGTERM");
    const { stderr } = await child.ended;
    const records = stderr
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(records).toMatchObject([
      { level: "info", message: "Saying", workflowId: "talk", data: { key: "[redacted]", header: "[redacted]" } },
      { level: "error", message: "Step failed", error: expect.stringContaining("with [redacted]") },
      ...(isDev ? [{ data: { route: "/workflows/:id/execute" } }, { data: { route: "/api/logs" } }] : []),
    ]);
    expect(stderr + JSON.stringify(kept)).not.toContain("not-like-any-other-key");
  });
});
