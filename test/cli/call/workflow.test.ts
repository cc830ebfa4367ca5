import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { andThen, createToken, defineAgent, defineWorkflow, jwtAuth } from "agentserve";
import { echoModel } from "agentserve/models";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { createProject } from "../../harness/project.ts";
import { agentserve } from "../../harness/cli.ts";
import { freePort } from "../../harness/free-port.ts";
import { call, callWith, heard, parseLines, post, serve, share, startCall } from "./stage.ts";

const secret = "a secret of at least thirty-two bytes";
let failures = 0;
const steps = defineWorkflow({ id: "steps", input: v.object({ n: v.optional(v.number(), 1) }) })
  .andThen({
    id: "flaky",
    retry: { attempts: 3, delay: 1 },
    execute: ({ data, emit }) => {
      emit({ type: "counted", n: data.n, text: "\u001b[31mred\u009b2J" });
      if (failures++ % 3 < 2) throw new Error("not yet");
      return data;
    },
  })
  .andWhen({ id: "when", condition: () => false, step: andThen({ id: "never", execute: ({ data }) => data }) })
  .andAgent({
    id: "ask",
    agent: defineAgent({ id: "echo", instructions: "", model: echoModel() }),
    prompt: "one two three",
  })
  .andThen({ id: "last", execute: ({ data }) => ({ said: data }) });
const approval = defineWorkflow({ id: "approval", input: v.object({ n: v.number() }) })
  .andThen({
    id: "first",
    resumeSchema: v.object({ approved: v.boolean() }),
    execute: ({ data, resumeData, suspend }) => resumeData ?? suspend(`Is ${data.n} fine?`, { n: data.n }),
  })
  .andThen({
    id: "second",
    execute: ({ data, resumeData, suspend, input }) =>
      (input as { n: number }).n > 1 && resumeData === undefined
        ? suspend("And now?")
        : { ...(data as object), resumeData },
  });
const branches = defineWorkflow({ id: "branches" }).andAll({
  id: "all",
  steps: ["left", "right"].map((id) =>
    andThen({
      id,
      execute: ({ resumeData, suspend }) => (resumeData === undefined ? suspend(`${id}?`) : { [id]: resumeData }),
    }),
  ) as never,
});
const child = defineWorkflow({ id: "child", resumeSchema: v.object({ code: v.number() }) }).andThen({
  id: "ask",
  execute: ({ resumeData, suspend }) => resumeData ?? suspend("Which code?"),
});
const nested = defineWorkflow({ id: "nested", resumeSchema: v.object({ text: v.string() }) })
  .andWorkflow({ id: "inner", workflow: child })
  .andForEach({
    id: "each",
    items: () => [1],
    step: andThen({ id: "item", execute: ({ resumeData, suspend }) => resumeData ?? suspend("Which text?") }),
  });
const broken = defineWorkflow({ id: "broken" }).andThen({
  id: "breaks",
  execute: () => {
    throw new Error("no luck");
  },
});
const url = share({
  workflows: [steps, approval, branches, nested, broken],
  auth: jwtAuth({ secret }),
});
const token = await createToken({ sub: "ada" }, secret, { expiresIn: "1h" });
const here = (args: string[]) => call(["workflow", ...args, "--url", url()], { AGENTSERVE_TOKEN: token });

describe("agentserve call workflow", () => {
  it("call shows each step on stderr, and only the result on stdout", async () => {
    const { code, stdout, stderr } = await here(["steps"]);
    expect([code, JSON.parse(stdout)]).toEqual([0, { said: "one two three" }]);
    expect(stdout).toBe('{\n  "said": "one two three"\n}\n');
    const lines = stderr.replaceAll(/[\d.]+ (?:ms|s)\b/g, "0 ms").split("\n");
    expect(lines.filter((line) => !line.startsWith("•"))).toEqual([
      "▸ flaky",
      "✓ flaky  0 ms  ·  attempt 3",
      "▸ when",
      "- when  skipped",
      "▸ ask",
      "one two three",
      "✓ ask  0 ms",
      "▸ last",
      "✓ last  0 ms",
      "",
    ]);
    expect(lines.find((line) => line.startsWith("•"))).toBe(String.raw`• counted {"n":1,"text":"\u001b[31mred\x9b2J"}`);
  });

  it("call shows the resume data that a step of a sub-workflow or of a loop expects", async () => {
    const inner = await here(["nested", "{}", "--execution", "nested"]);
    expect([inner.code, inner.stderr]).toEqual([3, expect.stringContaining(`--resume '{"code":<number>}'`)]);
    const item = await here(["nested", "--execution", "nested", "--resume", '{"code":7}']);
    expect([item.code, item.stderr]).toEqual([3, expect.stringContaining(`--resume '{"text":<string>}'`)]);
  });

  it("call takes the input of a workflow as JSON or from stdin", async () => {
    const args = ["workflow", "approval", "-", "--url", url(), "--resume", '{"approved":false}', "--token", token];
    const { code, stdout } = await callWith('{"n":1}', args);
    expect([code, JSON.parse(stdout)]).toEqual([0, { approved: false }]);
    expect(await callWith("{n", args)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: `error <input>: expected JSON, found "{n"\nhint  in a shell, put JSON in single quotes: '{"amount":500}'\n`,
    });
  });

  it("call ends with 3 at a suspension and prints a command that resumes the execution", async () => {
    const { code, stdout, stderr } = await here(["approval", '{"n":1}', "--execution", "later"]);
    expect([code, stdout]).toEqual([3, ""]);
    expect(stderr).toBe(
      [
        "▸ first",
        "‖ first waits: Is 1 fine?",
        '  {"n":1}',
        "execution later is suspended; resume it with",
        `  npx agentserve call workflow approval --execution later --url ${url()} --resume '{"approved":<boolean>}'`,
        `  curl -X POST '${url()}/workflows/approval/executions/later/resume' -H "Authorization: Bearer $AGENTSERVE_TOKEN" -H 'content-type: application/json' -d '{"resumeData":{"approved":<boolean>}}'`,
        "",
      ].join("\n"),
    );
    const refused = await here(["approval", "--execution", "later", "--resume", '{"approved":7}']);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("error Invalid resume data: approved")]);
    expect(refused.stderr).toContain("execution later is suspended");
    const resumed = await here(["approval", "--execution", "later", "--resume", '{"approved":true}']);
    expect([resumed.code, JSON.parse(resumed.stdout)]).toEqual([0, { approved: true }]);
    expect(resumed.stderr).toMatch(/‖ first waits: [^]*✓ first\n▸ second\n✓ second {2}[\d.]+ m?s\n$/);
    const again = await here(["approval", "--execution", "later"]);
    expect([again.code, again.stdout]).toEqual([0, resumed.stdout]);
    const twice = await here(["approval", '{"n":1}', "--execution", "later"]);
    expect([twice.code, twice.stderr]).toEqual([
      1,
      "error Execution later already exists (409)\nhint  to follow an existing execution, pass --execution without an input\n",
    ]);
  });

  it("call uses --resume once: for the first suspension", async () => {
    const { code, stderr } = await here(["approval", '{"n":2}', "--resume", '{"approved":true}']);
    expect([code, stderr]).toEqual([3, expect.stringMatching(/✓ first\n▸ second\n‖ second waits: And now\?\n/)]);
    expect(stderr).toContain("--resume '<json>'");
  });

  it("call resumes branches one after the other, and names the step that waits", async () => {
    const first = await here(["branches", "{}", "--execution", "both"]);
    expect([first.code, first.stderr]).toEqual([3, expect.stringContaining("‖ left waits, and 1 more: left?")]);
    expect(first.stderr).toContain(`"options":{"stepId":"left"}`);
    const second = await here(["branches", "--execution", "both", "--resume", "1"]);
    expect([second.code, second.stderr]).toEqual([3, expect.stringContaining("‖ right waits: right?")]);
    const third = await here(["branches", "--execution", "both", "--resume", "2"]);
    expect([third.code, JSON.parse(third.stdout)]).toEqual([0, [{ left: 1 }, { right: 2 }]]);
  });

  it("call --json prints every event as one line of JSON, and nothing else", async () => {
    const args = ["approval", '{"n":1}', "--json", "--resume", '{"approved":true}', "--conversation", "c"];
    const { code, stdout, stderr } = await here(args);
    const events = parseLines(stdout);
    expect([code, stderr, events.map(({ type }) => type)]).toEqual([
      0,
      "",
      "workflow-start step-start workflow-suspended workflow-result step-complete step-start step-complete workflow-complete workflow-result".split(
        " ",
      ),
    ]);
    expect(events.flatMap(({ seq }) => seq ?? [])).toEqual([1, 2, 3, 4, 5, 6, 7]);
    const state = await fetch(`${url()}/workflows/approval/executions/${events[0].executionId}/state`);
    expect(await state.json()).toMatchObject({ data: { context: { conversationId: "c", userId: "ada" } } });
    const waits = await here(["approval", '{"n":1}', "--json"]);
    expect([waits.code, waits.stdout.trimEnd().split("\n").length]).toEqual([3, 4]);
  });

  it("call ends with 1 when the workflow fails or is cancelled", async () => {
    const { code, stdout, stderr } = await here(["broken", "--execution", "b"]);
    expect([code, stdout, stderr]).toEqual([
      1,
      "",
      "▸ breaks\nerror The workflow failed: Failed to execute workflow\nhint  execution b\n",
    ]);
    await here(["approval", '{"n":1}', "--execution", "c"]);
    const headers = { authorization: `Bearer ${token}` };
    await post(`${url()}/workflows/approval/executions/c/cancel`, { reason: "too \u001b[2Jlate" }, headers);
    const cancelled = await here(["approval", "--execution", "c"]);
    expect([cancelled.code, cancelled.stderr]).toEqual([
      1,
      expect.stringContaining(String.raw`error The workflow was cancelled: too \x1b[2Jlate`),
    ]);
  });

  it("call says what an invalid input lacks, and which workflow ids exist", async () => {
    const bad = await here(["approval", '{"n":"x"}']);
    expect([bad.code, bad.stderr]).toEqual([
      1,
      expect.stringMatching(
        /^error Input validation failed: n: .* \(400\)\nhint {2}expected input: \{"n":<number>\}\n$/,
      ),
    ]);
    expect(await here(["aproval"])).toMatchObject({
      code: 1,
      stdout: "",
      stderr: "error Workflow aproval not found (404)\nhint  did you mean approval?\n",
    });
    expect((await here(["invoice"])).stderr).toBe(
      "error Workflow invoice not found (404)\nhint  available workflows: steps, approval, branches, nested, broken\n",
    );
  });

  it("call says how to get a token when one is needed, and never prints a token", async () => {
    const none = await call(["workflow", "steps", "--url", url()]);
    expect(none).toMatchObject({
      code: 1,
      stderr:
        "error Authentication required (401)\nhint  pass a token with --token or AGENTSERVE_TOKEN; create one for the project in this folder: npx agentserve token --sub ada\n",
    });
    const bad = await call(["workflow", "steps", "--url", url(), "--token", `${token}x`, "--json"]);
    expect([bad.code, bad.stdout, bad.stderr]).toEqual([
      1,
      "",
      expect.stringContaining("pass a valid token with --token"),
    ]);
    const torn = await call(["workflow", "steps", "--url", url(), "--token", "hunter2 \n hunter2"]);
    expect([torn.code, torn.stderr]).toEqual([2, expect.stringContaining("error --token: expected a token")]);
    for (const { stdout, stderr } of [none, bad, torn]) expect(stdout + stderr).not.toMatch(/eyJ|hunter2/);
  });
});

const holding = `import { existsSync, writeFileSync } from "node:fs";
import { defineConfig, defineWorkflow } from "agentserve";
const holds = defineWorkflow({ id: "holds" })
  .andThen({ id: "before", execute: () => 1 })
  .andThen({ id: "holds", execute: async ({ signal }) => {
    writeFileSync("held", "");
    while (!existsSync("go") && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, 20));
    return 2;
  } })
  .andThen({ id: "after", execute: ({ data }) => ({ data }) });
export default defineConfig({ workflows: [holds] });`;

describe("agentserve call workflow, cut off", () => {
  it("call attaches again to a server that was killed and restarted, and shows each step once", async () => {
    const cwd = createProject({ "agents.config.ts": holding });
    const port = String(await freePort());
    const data = ["--data", "data.db"];
    const first = await serve(cwd, ["--port", port, ...data]);
    const calling = startCall(["workflow", "holds", "--url", first.url, "--json"]);
    await calling.waitFor(/"from":"holds"/);
    await first.stop();
    await heard(calling, /The connection to \S+ was closed or timed out.*; reconnecting \(1 of 6\)/);
    writeFileSync(join(cwd, "go"), "");
    const second = agentserve(["start", "--port", port, ...data], { cwd });
    await second.waitFor(/http:/);
    const { code, stdout } = await calling.ended;
    const events = parseLines(stdout);
    expect(code).toBe(0);
    expect(events.flatMap(({ seq }) => seq ?? [])).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(events.at(-1)).toMatchObject({ type: "workflow-result", status: "completed", result: { data: 2 } });
  });

  it("call says that the execution continues, and how to follow it, when the server stays down", async () => {
    const cwd = createProject({ "agents.config.ts": holding });
    const { url: base, stop } = await serve(cwd);
    const calling = startCall(["workflow", "holds", "--url", base, "--execution", "x", "{}"]);
    await heard(calling, /▸ holds/);
    await stop();
    const { code, stdout, stderr } = await calling.ended;
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain("reconnecting (6 of 6)");
    expect(stderr).toMatch(
      /error Lost the connection to execution x: Cannot connect to \S+ \(ECONNREFUSED\)\nhint {2}it continues/,
    );
    expect(stderr).toContain(`follow it with: npx agentserve call workflow holds --execution x --url ${base}\n`);
  });

  it("call ends at Ctrl+C without the execution, and says how to follow and to cancel it", async () => {
    const cwd = createProject({ "agents.config.ts": holding });
    const { url: base } = await serve(cwd);
    const calling = startCall(["workflow", "holds", "--url", base, "--execution", "x", "{}"]);
    await heard(calling, /▸ holds/);
    calling.process.kill("SIGINT");
    const { code, signal, stdout, stderr } = await calling.ended;
    expect([code, signal, stdout]).toEqual([1, null, ""]);
    expect(stderr).toContain(
      [
        "execution x continues on the server",
        `  follow: npx agentserve call workflow holds --execution x --url ${base}`,
        `  cancel: curl -X POST '${base}/workflows/holds/executions/x/cancel'`,
        "",
      ].join("\n"),
    );
    expect(existsSync(join(cwd, "held"))).toBe(true);
    writeFileSync(join(cwd, "go"), "");
    const followed = await call(["workflow", "holds", "--url", base, "--execution", "x"]);
    expect([followed.code, JSON.parse(followed.stdout)]).toEqual([0, { data: 2 }]);
  });
});
