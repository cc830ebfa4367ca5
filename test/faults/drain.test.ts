import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { agentserve, type Child } from "../harness/cli.ts";
import { neverMs } from "../harness/patience.ts";
import { createProject } from "../harness/project.ts";
import { bySize } from "../harness/size.ts";

// At full size the default: 10 s.
const drainMs = bySize(1_500, 10_000);
const url = /http:\/\/\S+(?= )/;
const toFiles = (grace: number): Record<string, string> => ({
  "agents.config.ts": `import { defineConfig } from "agentserve";
export default defineConfig({ server: { port: 0, limits: { drainNoticeMs: 0${grace === 10_000 ? "" : `, drainMs: ${grace}`} } } });
`,
  // Waits for a file of its name, whatever its signal says.
  "workflows/held.ts": `import { appendFileSync, existsSync } from "node:fs";
import { defineWorkflow } from "agentserve";
const note = ({ executionId, stepId }) => appendFileSync("ran.txt", executionId + " " + stepId + "\\n");
const until = async (file) => { while (!existsSync(file)) await new Promise((resolve) => setTimeout(resolve, 5)); };
export const held = defineWorkflow({ id: "held" })
  .andThen({ id: "first", execute: note })
  .andThen({ id: "hold", async execute(context) { note(context); await until(context.executionId); } })
  .andThen({ id: "last", execute(context) { note(context); return "whole"; } });
`,
});

describe.each(["dev", "start"])("SIGTERM while executions run (%s)", (command) => {
  async function setUp(grace: number) {
    const folder = createProject(toFiles(grace));
    const ran = (id: string) =>
      (existsSync(join(folder, "ran.txt")) ? readFileSync(join(folder, "ran.txt"), "utf8").trim().split("\n") : [])
        .filter((line) => line.startsWith(`${id} `))
        .map((line) => line.slice(id.length + 1));
    const open = async () => {
      const child = agentserve([command], { cwd: folder });
      const [base] = await child.waitFor(url);
      return { child, base };
    };
    const begin = (base: string, executionId: string, headers = {}) =>
      fetch(`${base}/workflows/held/execute`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify({ input: {}, options: { executionId } }),
      });
    const began = performance.now();
    const { child, base } = await open();
    const startMs = performance.now() - began;
    const waiting = begin(base, "stubborn");
    await begin(base, "willing", { prefer: "respond-async" });
    await expect.poll(() => [ran("stubborn").length, ran("willing").length]).toEqual([2, 2]);
    const stream = await fetch(`${base}/workflows/held/executions/stubborn/stream`);
    return { folder, ran, open, child, waiting, stream, startMs };
  }

  async function finish({ folder, ran, open }: Awaited<ReturnType<typeof setUp>>, willing: string[]): Promise<Child> {
    for (const id of ["stubborn", "willing"]) writeFileSync(join(folder, id), "");
    const { child, base } = await open();
    const state = async (id: string) =>
      (await (await fetch(`${base}/workflows/held/executions/${id}/state`)).json()).data;
    for (const id of ["stubborn", "willing"])
      await expect.poll(() => state(id)).toMatchObject({ status: "completed", result: "whole" });
    expect(ran("stubborn")).toEqual(["first", "hold", "hold", "last"]);
    expect(ran("willing")).toEqual(willing);
    return child;
  }

  it("SIGTERM lets steps finish within the grace, ends in time though one ignores its signal, and loses nothing", async () => {
    const world = await setUp(drainMs);
    const { child, folder, ran, waiting, stream, startMs } = world;
    const began = performance.now();
    child.process.kill("SIGTERM");
    await child.waitFor(/press Ctrl\+C again to force/);
    writeFileSync(join(folder, "willing"), "");
    const text = await stream.text(); // it ends
    expect(text).toContain('"from":"hold"');
    expect(text).not.toContain("workflow-result");
    const refused = await waiting;
    expect([refused.status, refused.headers.get("x-execution-id")]).toEqual([503, "stubborn"]);
    expect(await child.ended).toMatchObject({ code: 0 });
    const took = performance.now() - began;
    console.log(`${command}: ended ${Math.round(took)} ms after SIGTERM, of ${drainMs}`);
    // What it needs beside the grace is a matter of the machine, and so is its start.
    expect(took).toBeLessThan(drainMs + 1_000 + 2 * startMs);
    expect(ran("willing"), "nothing new starts").toEqual(["first", "hold"]);
    await finish(world, ["first", "hold", "last"]);
  });

  it("a second SIGTERM ends the server at once, and loses nothing", async () => {
    const world = await setUp(neverMs);
    const { child, waiting } = world;
    waiting.catch(() => {}); // cut
    child.process.kill("SIGTERM");
    await child.waitFor(/press Ctrl\+C again to force/);
    child.process.kill("SIGTERM");
    expect(await child.ended).toMatchObject({ code: 1 });
    await finish(world, ["first", "hold", "hold", "last"]);
  });
});
