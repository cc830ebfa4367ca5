import { defineAgent, defineWorkflow } from "agentserve";
import { echoModel } from "agentserve/models";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { approval } from "../../../templates/starter/workflows/approval.ts";
import { callInTerminal, pretend, share, toFrames, type Terminal } from "./stage.ts";

const form = defineWorkflow({
  id: "form",
  input: v.object({
    text: v.pipe(v.string(), v.description("What it is about")),
    count: v.pipe(v.number(), v.integer()),
    color: v.picklist(["red", "green", "blue"]),
    size: v.optional(v.number(), 5),
    note: v.optional(v.string()),
    sure: v.optional(v.boolean()),
    place: v.object({ city: v.string() }),
    tags: v.array(v.string()),
  }),
}).andThen({ id: "echo", execute: ({ data }) => data });
const free = defineWorkflow({ id: "free" }).andThen({
  id: "ask",
  execute: ({ resumeData, suspend }) => (resumeData === undefined ? suspend("What?") : { got: resumeData }),
});
const url = share({
  agents: [defineAgent({ id: "assistant", instructions: "", model: echoModel() })],
  workflows: [approval, form, free],
});

const [enter, down, interrupt] = ["\r", "\u001b[B", "\u0003"];
// A bell, an introducer of one byte, a mark that turns the line round.
const isUnsafe = (text: string) => ["\u0007", "\u009b", "\u202e"].some((letter) => text.includes(letter));
const shown = (terminal: Terminal) => terminal.output().stdout.replaceAll("\r", "");
/** Waits for each question, and answers it. */
async function answer(terminal: Terminal, answers: [RegExp, string][]): Promise<void> {
  for (const [question, keys] of answers) {
    await terminal.waitFor(question);
    terminal.type(keys);
  }
}

describe("agentserve call in a terminal", () => {
  it("call asks in a terminal whether the starter's expense is approved, and resumes with the answer", async () => {
    const terminal = callInTerminal(["workflow", "approval", '{"amount":500,"reason":"a chair"}', "--url", url()]);
    await answer(terminal, [[/‖ decide waits: Approve 500 for a chair\?[^]*❯ approved[^]*No/, "y"]]);
    expect((await terminal.ended).code).toBe(0);
    expect(shown(terminal)).toMatch(
      /✓ decide\n▸ audit\n✓ audit {2}[\d.]+ m?s\n▸ answer\n✓ answer {2}[\d.]+ m?s\n\{\n {2}"approved": true,\n {2}"amount": 500\n\}\n$/,
    );
  });

  it("call takes Enter in a terminal for no", async () => {
    const terminal = callInTerminal(["workflow", "approval", '{"amount":500,"reason":"a chair"}', "--url", url()]);
    await answer(terminal, [[/❯ approved[^]*No/, enter]]);
    expect([(await terminal.ended).code, shown(terminal)]).toEqual([0, expect.stringContaining('"approved": false')]);
  });

  it("call asks in a terminal again for data that --resume got wrong", async () => {
    const args = ["workflow", "approval", '{"amount":500,"reason":"a chair"}', "--resume", '{"approved":1}'];
    const terminal = callInTerminal([...args, "--url", url()]);
    await answer(terminal, [[/Invalid resume data: approved[^]*❯ approved[^]*No/, "y"]]);
    expect([(await terminal.ended).code, shown(terminal)]).toEqual([0, expect.stringContaining('"approved": true')]);
  });

  it("call says how to resume later when a question is left with Ctrl+C", async () => {
    const terminal = callInTerminal(["workflow", "approval", '{"amount":500,"reason":"a chair"}', "--url", url()]);
    await answer(terminal, [[/❯ approved[^]*No/, interrupt]]);
    expect([(await terminal.ended).code, shown(terminal)]).toEqual([
      3,
      expect.stringMatching(/execution \S+ is suspended; resume it with\n {2}npx agentserve call workflow approval/),
    ]);
  });

  it("call asks in a terminal for the input field by field, checks it, and omits skipped fields", async () => {
    const terminal = callInTerminal(["workflow", "form", "--url", url()]);
    await answer(terminal, [
      [/❯ text: What it is about/, `hello${enter}`],
      [/❯ count \(whole number\)/, `many${enter}`],
      [/❯ count \(whole number\) expected a number/, `1.5${enter}`],
      [/❯ count \(whole number\) expected a whole number/, `7${enter}`],
      [/❯ color[^]*blue/, `${down}${enter}`],
      [/❯ size \(number\)[^]*Enter: 5/, enter],
      [/❯ note[^]*Enter: skip/, enter],
      [/❯ sure[^]*\(skip\)/, enter],
      [/❯ place\.city/, `Berlin${enter}`],
      [/❯ tags \(JSON\)/, `[${enter}`],
      [/❯ tags \(JSON\) expected JSON/, `["a"]${enter}`],
    ]);
    expect((await terminal.ended).code).toBe(0);
    const [json = ""] = /\{\n {2}"text"[^]*\n\}\n$/.exec(shown(terminal)) ?? [];
    expect(JSON.parse(json)).toEqual({
      text: "hello",
      count: 7,
      color: "green",
      size: 5,
      place: { city: "Berlin" },
      tags: ["a"],
    });
  });

  it("call asks in a terminal for JSON where there is no schema", async () => {
    const terminal = callInTerminal(["workflow", "free", "--url", url()]);
    await answer(terminal, [
      [/❯ input \(JSON\)/, enter],
      [/‖ ask waits: What\?[^]*❯ answer for ask \(JSON\)/, `{"a":[1]}${enter}`],
    ]);
    expect([(await terminal.ended).code, shown(terminal)]).toEqual([
      0,
      expect.stringMatching(/"got": \{\n {4}"a": \[/),
    ]);
  });

  it("call sends nothing when the form of the input is left with Ctrl+C", async () => {
    const terminal = callInTerminal(["workflow", "form", "--url", url()]);
    await answer(terminal, [[/❯ text/, interrupt]]);
    expect([(await terminal.ended).code, shown(terminal)]).toEqual([
      1,
      expect.stringContaining("error Cancelled: nothing was sent"),
    ]);
  });

  it("call asks in a terminal for the message to an agent", async () => {
    const terminal = callInTerminal(["agent", "assistant", "--url", url()]);
    await answer(terminal, [[/❯ What do you want to ask\?/, `one two${enter}`]]);
    expect([(await terminal.ended).code, shown(terminal)]).toEqual([
      0,
      expect.stringMatching(/one two\n\d+ tokens in, \d+ out/),
    ]);
  });

  it("call asks nothing in a terminal with --json", async () => {
    const args = ["workflow", "approval", '{"amount":500,"reason":"a chair"}', "--json"];
    expect((await callInTerminal([...args, "--url", url()]).ended).code).toBe(3);
    const { code, stdout } = await callInTerminal(["agent", "assistant", "--json", "--url", url()]).ended;
    expect([code, stdout]).toEqual([2, expect.stringContaining("expected a message for the agent")]);
  });

  it("call shows in a terminal no control character of an answer, a result or a question", async () => {
    const evil = "\u0007\u009b2J\u202e";
    const other = await pretend(({ url: path = "" }, response) => {
      const suspension = { stepId: "a", reason: evil, suspendedAt: "now" };
      const data = {
        steps: [],
        resumeSchema: { type: "object", properties: { [evil]: { enum: [evil, "fine"], description: evil } } },
      };
      response.writeHead(200, { "content-type": path.endsWith("stream") ? "text/event-stream" : "application/json" });
      if (!path.endsWith("stream")) response.end(JSON.stringify({ success: true, data }));
      else if (path.startsWith("/agents"))
        response.end(toFrames([{ type: "text-delta", delta: `a\tb\n${evil}` }, { type: "finish" }]));
      else if (path.includes("/done/"))
        response.end(toFrames([{ type: "workflow-result", status: "completed", result: evil }]));
      else response.end(toFrames([{ type: "workflow-result", status: "suspended", suspension }]));
    });
    const raw = (terminal: Terminal) => {
      let text = "";
      terminal.process.stdout!.on("data", (chunk: string) => (text += chunk));
      return () => text;
    };
    const asking = callInTerminal(["workflow", "waits", "{}", "--url", other.url]);
    const asked = raw(asking);
    await answer(asking, [[/❯ \S+[^]*fine/, interrupt]]);
    expect((await asking.ended).code).toBe(3);
    for (const args of [
      ["agent", "x", "hi"],
      ["workflow", "done", "{}"],
    ]) {
      const terminal = callInTerminal([...args, "--url", other.url]);
      const text = raw(terminal);
      expect((await terminal.ended).code).toBe(0);
      expect(text()).toMatch(/\\(x|u00)9b2J\\u202e/); // a result is JSON, which has no \x
      expect(isUnsafe(text())).toBe(false);
    }
    expect(isUnsafe(asked())).toBe(false);
  });
});
