import { defineAgent, defineTool, ServeError } from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { call, callWith, parseLines, share } from "./stage.ts";

const weather = defineTool({
  description: "Tells the weather",
  inputSchema: v.object({ city: v.string() }),
  execute: ({ city }) => {
    if (city === "Atlantis") throw new ServeError(404, "under \u001b[2Jwater");
    return { city, celsius: 21 };
  },
});
const agent = (id: string, model: ReturnType<typeof echoModel>) =>
  defineAgent({ id, instructions: "", model, tools: { weather } });
const failing = scriptedModel([new Error("no such model"), new Error("no such model")]);
const url = share({
  agents: [agent("assistant", echoModel()), agent("failing", failing)],
});

describe("agentserve call agent", () => {
  it("call prints the answer of an agent to stdout, and its tool calls to stderr", async () => {
    const { code, stdout, stderr } = await call(["agent", "assistant", "the weather in Berlin", "--url", url()]);
    expect([code, stdout]).toEqual([0, 'weather: {"city":"Berlin","celsius":21}\n']);
    expect(stderr).toMatch(
      /^→ weather \{"city":"Berlin"\}\n← weather \{"city":"Berlin","celsius":21\}\n\d+ tokens in, \d+ out {2}· {2}\S+ m?s\n$/,
    );
    const failed = await call(["agent", "assistant", "the weather in Atlantis", "--url", url()]);
    expect([failed.code, failed.stderr]).toEqual([
      0,
      expect.stringContaining(String.raw`✗ weather under \x1b[2Jwater`),
    ]);
  });

  it("call writes an answer unchanged into a pipe, and reads the question from stdin", async () => {
    const text = "tab\there \u0007 bell\r\nnext ünïcode 😀";
    const { code, stdout } = await callWith(text, ["agent", "assistant", "-", "--url", url()]);
    expect([code, stdout]).toEqual([0, `${text}\n`]);
  });

  it("call continues the conversation of --conversation", async () => {
    const ask = (text: string) =>
      call(["agent", "assistant", text, "--url", url(), "--conversation", "c", "--json"]).then(({ stdout }) =>
        parseLines(stdout),
      );
    const tokens = (events: { type: string; usage?: { inputTokens: number } }[]) => events.at(-1)!.usage!.inputTokens;
    const first = await ask("one two three");
    expect([first.at(0).type, first.at(-1).type]).toEqual(["start", "finish"]);
    expect(first.filter(({ type }) => type === "text-delta").map(({ delta }) => delta)).toEqual([
      "one ",
      "two ",
      "three",
    ]);
    expect(tokens(await ask("one two three"))).toBeGreaterThan(2 * tokens(first));
  });

  it("call ends with 1 when the model fails, and says where the reason is", async () => {
    const { code, stdout, stderr } = await call(["agent", "failing", "hi", "--url", url()]);
    expect([code, stdout, stderr]).toEqual([
      1,
      "",
      "error Model call failed (502)\nhint  see the log of the server for the reason\n",
    ]);
    const json = await call(["agent", "failing", "hi", "--url", url(), "--json"]);
    expect([json.code, json.stderr]).toEqual([1, expect.stringContaining("Model call failed")]);
  });

  it("call of an unknown agent names the nearest one, or all of them", async () => {
    expect((await call(["agent", "asistant", "hi", "--url", url()])).stderr).toBe(
      "error Agent asistant not found (404)\nhint  did you mean assistant?\n",
    );
    expect((await call(["agent", "nobody", "hi", "--url", url()])).stderr).toContain(
      "hint  available agents: assistant, failing\n",
    );
  });

  it.each<[string, string[], string]>([
    ["without a question", ["agent", "assistant"], "error <input>: expected a message for the agent\n"],
    ["with an empty one", ["agent", "assistant", ""], "error <input>: expected a message for the agent\n"],
    [
      "with --resume",
      ["agent", "assistant", "hi", "--resume", "{}"],
      "error --resume works only with a workflow, not with an agent\n",
    ],
    [
      "with a kind that is none",
      ["agnet", "assistant"],
      'error <kind>: expected workflow or agent, found "agnet"\nhint  did you mean agent?\n',
    ],
    [
      "with another kind",
      ["\u001b[2Jtool", "x"],
      String.raw`error <kind>: expected workflow or agent, found "\u001b[2Jtool"`,
    ],
    ["with an id that is none", ["agent", "../x", "hi"], "error <id>: expected 1 to 128 characters"],
    ["with an id of 10,000 letters", ["agent", "x".repeat(10_000), "hi"], "error <id>: expected 1 to 128 characters"],
    [
      "with an execution id that is none",
      ["workflow", "x", "--execution", "a b"],
      "error --execution: expected 1 to 128 characters",
    ],
    [
      "with a --resume that is no JSON",
      ["workflow", "x", "--resume", "yes"],
      'error --resume: expected JSON, found "yes"\n',
    ],
  ])("call ends with 2 and says what it expects if it is run %s", async (_, args, message) => {
    const { code, stdout, stderr } = await call([...args, "--url", url()]);
    expect([code, stdout, stderr]).toEqual([2, "", expect.stringContaining(message)]);
    expect(stderr.length).toBeLessThan(500);
  });

  it.each([
    ["nonsense", 'expected an http or https URL, found "nonsense"'],
    ["ftp://127.0.0.1", 'expected an http or https URL, found "ftp://127.0.0.1"'],
    ["http://ada:hunter2@127.0.0.1", "expected a URL without a user name and password"],
    ["ada:hunter2@127.0.0.1", "expected an http or https URL, found something else"],
    ["http://127.0.0.1/?x=1", "expected a URL without a query or hash"],
  ])("call refuses the URL %s, from a flag and from the environment", async (bad, message) => {
    const flag = await call(["agent", "assistant", "hi", "--url", bad]);
    expect([flag.code, flag.stderr]).toEqual([2, expect.stringContaining(`error --url: ${message}`)]);
    const env = await call(["agent", "assistant", "hi"], { AGENTSERVE_URL: bad });
    expect([env.code, env.stderr]).toEqual([2, expect.stringContaining(`error AGENTSERVE_URL: ${message}`)]);
    expect(flag.stderr + env.stderr).not.toContain("hunter2");
  });

  it("call takes a URL with slashes at its end", async () => {
    expect(await call(["agent", "assistant", "hi", "--url", `${url()}//`])).toMatchObject({ code: 0, stdout: "hi\n" });
  });
});
