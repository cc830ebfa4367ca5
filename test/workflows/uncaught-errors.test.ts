import { describe, expect, it } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { eventually } from "../harness/waiting.ts";

describe("the process", () => {
  it("survives a floating rejection and a throw out of a timer, and shows nothing of the code in start", async () => {
    const folder = createProject({
      "agents.config.ts": "export default {};",
      "workflows/bad.ts": `import { defineWorkflow } from "agentserve";
export const floating = defineWorkflow({ id: "floating" }).andThen({ id: "s", execute() { void Promise.reject(new Error("floating secret")); return 1; } });
export const timer = defineWorkflow({ id: "timer" }).andThen({ id: "s", async execute() { setTimeout(() => { throw new Error("timer secret"); }); await new Promise((r) => setTimeout(r, 20)); return 2; } });
export const broken = defineWorkflow({ id: "broken" }).andThen({ id: "s", execute() { const somethingSecret = null; return somethingSecret!.field; } });
`,
    });
    const child = agentserve(["start", "--port", "0"], { cwd: folder });
    const [base] = await child.waitFor(/http:\/\/\S+:\d+/);
    const seen: string[] = [];
    const ask = async (path: string, body?: unknown) => {
      const init =
        body === undefined
          ? {}
          : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
      const response = await fetch(base + path, init);
      const text = await response.text();
      seen.push(text);
      return [response.status, text] as const;
    };
    for (const id of ["floating", "timer"]) expect((await ask(`/workflows/${id}/execute`, { input: {} }))[0]).toBe(200);
    expect((await ask("/workflows/broken/execute", { input: {}, options: { executionId: "b" } }))[0]).toBe(500);
    await ask("/workflows/broken/stream", { input: {} });
    for (const path of [
      "/workflows",
      "/workflows/broken",
      "/workflows/broken/executions/b/state",
      "/workflows/broken/executions/b/stream",
      "/workflows/broken/executions",
      "/doc",
      "/nope",
      "/workflows/%ff",
    ])
      await ask(path);
    const everything = seen.join("\n");
    for (const secret of [
      "secret",
      "somethingSecret",
      "Cannot read",
      "=>",
      "function",
      "    at ",
      folder,
      "node_modules",
      ".ts:",
      "execute()",
    ]) {
      expect(everything).not.toContain(secret);
    }
    await eventually(() =>
      expect(child.output().stderr).toMatch(/floating secret[\s\S]*timer secret|timer secret[\s\S]*floating secret/),
    );
    expect(child.process.exitCode).toBeNull();
    child.process.kill("SIGTERM");
    expect((await child.ended).code).toBe(0);
  });
});
