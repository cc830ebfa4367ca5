import { describe, expect, it } from "vitest";
import { createServer } from "agentserve";
import { constants } from "../../src/config/limits.ts";
import { startDev } from "../dev/dev-server.ts";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { startTestServer } from "../harness/server.ts";
import { withBounds } from "../harness/bounds.ts";

const toConfig = (limits: object): string => `import { defineConfig } from "agentserve";
export default defineConfig({ server: { cors: false, limits: ${JSON.stringify(limits)} as object } });
`;
const lineOf = (name: keyof typeof constants): string =>
  `server.limits.${name} is a constant now: ${constants[name]}\n`;

describe("a limit that is a constant now", () => {
  it("start refuses it with its name and value, and doctor says so", async () => {
    const cwd = createProject({ "agents.config.ts": toConfig({ loopItems: 5, bodyBytes: 1_000, logBytes: "x" }) });
    const refused = await agentserve(["start", "--port", "0"], { cwd }).ended;
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toBe(
      `error ${lineOf("loopItems")}      ${lineOf("logBytes")}hint  remove it from the config\n`,
    );
    const examined = await agentserve(["doctor"], { cwd }).ended;
    expect(examined.code).toBe(1);
    expect(examined.stdout).toContain(`✗ start    ${lineOf("loopItems")}`);
  });

  it("dev warns about it, and about another one that a save adds", async () => {
    const dev = await startDev({ "agents.config.ts": toConfig({ loopItems: 5 }) });
    const warnings = (): string[] => dev.raw().match(/^warning .*\n/gm) ?? [];
    expect(warnings()).toEqual([`warning ${lineOf("loopItems")}`]);
    const save = { "agents.config.ts": toConfig({ loopItems: 5, jsonDepth: 7 }) };
    await dev.said(/jsonDepth .*\nhint +remove/, () => dev.save(save));
    expect(warnings()).toEqual([`warning ${lineOf("loopItems")}`, `warning ${lineOf("jsonDepth")}`]);
  });

  it("createServer refuses each of them", () => {
    for (const name of Object.keys(constants) as (keyof typeof constants)[])
      expect(() => createServer({ server: { limits: { [name]: 1 } as object } })).toThrow(lineOf(name).trim());
  });

  it("has no effect in dev, and is not proposed for an unknown limit", async () => {
    const limits: object = { jsonDepth: 1 };
    const dev = await startTestServer("dev", { config: { server: { limits } } });
    expect(dev.snapshot.config.server.limits.jsonDepth).toBe(100);
    const unknown: object = { jsonDept: 1 };
    expect(() => createServer({ server: { limits: unknown } })).toThrow(/jsonDept: unknown key; expected bodyBytes, /);
  });

  it("has another value in a test, by withBounds", async () => {
    const config = withBounds({ jsonDepth: 3, bodyBytes: 500 }, {});
    const { snapshot } = await startTestServer("in process", { config });
    expect(snapshot.config.server.limits).toMatchObject({ jsonDepth: 3, bodyBytes: 500, loopItems: 100_000 });
  });
});
