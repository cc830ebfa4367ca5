import { describe, expect, it } from "vitest";
import { defineAgent, defineWorkflow } from "agentserve";
import { echoModel } from "agentserve/models";
import { toVisible } from "../../src/core/terminal/visible.ts";
import { agentserve, bin, run, type Child } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { call, parseLines, post, share } from "./call/stage.ts";

// Next line and an introducer (C1), a mark that reverses the text, a zero-width space, a hidden letter, a filler.
const hostile = ["\u0085", "\u009d", "\u202e", "\u200b", "\u{e0041}", "\u3164"];
const text = `a${hostile.join("b")}c`;
const shownIn = (output: string) => hostile.filter((letter) => output.includes(letter)).map((letter) => escape(letter));

const url = share({
  agents: [defineAgent({ id: "assistant", instructions: "", model: echoModel() })],
  workflows: [defineWorkflow({ id: "echo" }).andThen({ id: "one", execute: ({ data }) => data })],
});

describe("text that would change how a terminal shows a line", () => {
  it("escapes text that changes a terminal in the events of call --json, which stay the same JSON", async () => {
    const { stdout } = await call(["agent", "assistant", text, "--url", url(), "--json"]);
    expect(shownIn(stdout)).toEqual([]);
    const deltas = parseLines(stdout).filter(({ type }) => type === "text-delta");
    expect(deltas.map(({ delta }) => delta).join("")).toBe(text);
  });

  it("escapes text that changes a terminal in the result of a workflow, which stays the same JSON", async () => {
    const { stdout } = await call(["workflow", "echo", JSON.stringify({ text }), "--url", url()]);
    expect(shownIn(stdout)).toEqual([]);
    expect(JSON.parse(stdout)).toEqual({ text });
  });

  it.each<[string, (cwd: string) => Child]>([
    ["as JSON", (cwd) => agentserve(["start", "--port", "0", "--data", ":memory:"], { cwd })],
    [
      "in a terminal",
      (cwd) =>
        run("script", ["-qec", `exec ${process.execPath} ${bin} dev --port 0 --data :memory:`, "/dev/null"], { cwd }),
    ],
  ])("escapes text that changes a terminal in the log %s", async (_, start) => {
    const cwd = createProject({
      "agents.config.ts": `
        import { defineConfig, defineWorkflow } from "agentserve";
        const execute = ({ data, logger }) => {
          logger.warn("said " + data.text, { said: data.text, [data.text]: [data.text] });
          throw new Error(data.text);
        };
        export default defineConfig({ workflows: [defineWorkflow({ id: "logs" }).andThen({ id: "one", execute })] });`,
    });
    const child = start(cwd);
    const [base] = await child.waitFor(/http:\/\/[\d.]+:\d+/);
    await (await post(`${base}/workflows/logs/execute`, { input: { text } })).text();
    const output = () => Object.values(child.output()).join("");
    await expect.poll(output).toMatch(/Step failed|failed at one/);
    child.process.kill("SIGTERM");
    await child.ended;
    expect(output()).toContain("said a");
    expect(shownIn(output())).toEqual([]);
  });

  it("escapes no joiner that an emoji or a script needs", () => {
    for (const kept of ["👨‍👩‍👧", "❤️", "می‌خواهم", "ünïcode"]) expect(toVisible(kept)).toBe(kept);
    expect(toVisible("\u{e0041}\u202e\u009b")).toBe(String.raw`\u{e0041}\u202e\x9b`);
  });

  it("call refuses an input with a number that JSON.stringify would change to null", async () => {
    const { code, stderr } = await call(["workflow", "echo", '{"a":[1e999]}', "--url", url()]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("<input>: a.0: the number is out of range (±1.8e308)")]);
  });
});
