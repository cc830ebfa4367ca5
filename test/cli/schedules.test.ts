import { describe, expect, it } from "vitest";
import { shared } from "../harness/at-end.ts";
import { agentserve } from "../harness/cli.ts";
import { freePort } from "../harness/free-port.ts";
import { runHere, type CommandResult } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";
import { pretend, serve } from "./call/stage.ts";

const workflow = `import { defineWorkflow } from "agentserve";
export const report = defineWorkflow({ id: "report" })
  .andThen({ id: "write", execute: ({ data }) => data });
`;
const schedule = (id: string, options: string): string => `
export const ${id} = defineSchedule({ id: "${id}", workflow: "report", ${options} });`;
const schedules = `import { defineSchedule } from "agentserve";
${schedule("nightly", `cron: "0 3 * * *", timezone: "Europe/Berlin", input: { by: "clock" }`)}
${schedule("quarter", `every: 15 * 60_000`)}
${schedule("yearly", `cron: "30 4 1 1 *"`)}
${schedule("ticks", `every: "1s"`)}
`;

/** Starts a server. */
async function open(files: Record<string, string> = { "schedules/s.ts": schedules }, config = "") {
  const cwd = createProject({
    "agents.config.ts": `import { defineConfig, jwtAuth } from "agentserve";
export default defineConfig({ server: { limits: { drainNoticeMs: 0 } }, ${config} });
`,
    "workflows/w.ts": workflow,
    ...files,
  });
  return { cwd, ...(await serve(cwd)) };
}
const get = shared(() => open());

const run = (args: string[], url = get().url): Promise<CommandResult> =>
  runHere(args, { env: { ...process.env, AGENTSERVE_URL: url, AGENTSERVE_TOKEN: "" } });
const command = (...args: string[]): Promise<CommandResult> => run(["schedules", ...args]);
const list = async () => JSON.parse((await command("--json")).stdout) as Record<string, unknown>[];
const find = async (id: string) => (await list()).find((one) => one["id"] === id)!;
const rowOf = (table: string, id: string) => table.split("\n").find((line) => line.startsWith(`${id} `));

describe("agentserve schedules", () => {
  it("schedules lists all schedules with their times, as a table or as JSON", async () => {
    await expect.poll(() => find("ticks")).toHaveProperty("lastAt");
    await command("pause", "yearly");
    const { code, stdout, stderr } = await command();
    expect([code, stderr]).toEqual([0, "start one now with: npx agentserve schedules trigger nightly\n"]);
    const [head, ...rows] = stdout.trimEnd().split("\n");
    expect(head!.split(/ {2,}/)).toEqual(["schedule", "workflow", "times", "last", "next"]);
    expect(rows).toHaveLength(4);
    const last = String.raw`(never|\d+ (ms|s|min) ago)`;
    const next = (time: string): string => String.raw`${time}\.000Z \((in \d+ (ms|s|min|h)|now)\)`;
    for (const [id, times, rest] of [
      ["nightly", String.raw`0 3 \* \* \* {2}Europe/Berlin`, `${last} +${next(String.raw`2\S+T0[12]:00:00`)}`],
      ["quarter", "every 15m", `${last} +${next(String.raw`2\S+T\d\d:(00|15|30|45):00`)}`],
      ["ticks", "every 1s", String.raw`\d+ (ms|s|min) ago +${next(String.raw`2\S+T\S+`)}`],
      ["yearly", String.raw`30 4 1 1 \* {2}UTC`, `${last} +paused`],
    ])
      expect(rowOf(stdout, id!)).toMatch(new RegExp(`^${id} +report +${times} +${rest}$`));

    const json = await command("list", "--json");
    expect([json.code, json.stderr]).toEqual([0, ""]);
    const listed = JSON.parse(json.stdout) as { id: string }[];
    expect(listed.map(({ id }) => id)).toEqual(["nightly", "quarter", "ticks", "yearly"]);
    expect(listed[3]).toEqual({
      id: "yearly",
      workflowId: "report",
      cron: "30 4 1 1 *",
      timezone: "UTC",
      paused: true,
    });
  });

  it("schedules says how to create a schedule if the server has none", async () => {
    const { url } = await open({});
    const { code, stdout, stderr } = await run(["schedules"], url);
    expect([code, stdout, stderr]).toEqual([
      0,
      "",
      "no schedules found; create one with defineSchedule() in schedules/\n",
    ]);
    expect((await run(["schedules", "--json"], url)).stdout).toBe("[]\n");
    const unknown = await run(["schedules", "trigger", "nightly"], url);
    expect([unknown.code, unknown.stderr]).toEqual([
      1,
      "error Schedule nightly not found (404)\nhint  this server has no schedules\n",
    ]);
  });

  it("schedules trigger starts an execution, and prints a command that shows it", async () => {
    const { code, stdout, stderr } = await command("trigger", "nightly", "--url", `${get().url}/`);
    const [, id] = /^execution (schedule:nightly:manual-[\da-f-]{36}) started\n$/.exec(stdout)!;
    expect([code, stderr]).toEqual([0, `show it with: npx agentserve runs show ${id} --url ${get().url}\n`]);
    const words = stderr.trim().replace("show it with: npx agentserve ", "").split(" ");
    const shown = await run(words, "http://127.0.0.1:1");
    expect(shown.stdout).toContain(`execution   ${id}\nworkflow    report\n`);
    expect(shown.stdout).toContain(`input       {"by":"clock"}\n`);
    const json = await command("trigger", "nightly", "--json");
    expect([JSON.parse(json.stdout), json.stderr]).toEqual([
      { executionId: expect.stringMatching(/^schedule:nightly:manual-/), status: "running" },
      "",
    ]);
  });

  it("schedules pauses and resumes a schedule, and prints its state", async () => {
    for (const _ of ["once", "again"]) {
      const paused = await command("pause", "yearly");
      expect(paused).toMatchObject({
        code: 0,
        stdout: "Schedule yearly is paused\n",
        stderr: "resume it with: npx agentserve schedules resume yearly\n",
      });
      expect(await find("yearly")).toMatchObject({ paused: true });
    }
    const resumed = await command("resume", "yearly");
    expect([resumed.code, resumed.stderr]).toEqual([0, ""]);
    const { nextAt, paused } = await find("yearly");
    expect(paused).toBe(false);
    expect(resumed.stdout).toMatch(/^Schedule yearly is resumed\. Next: \S+ \(in \d+ (ms|s|min|h|d)\)\n$/);
    expect(resumed.stdout).toContain(`Next: ${nextAt as string} (`);
    expect(JSON.parse((await command("pause", "yearly", "--json")).stdout)).toEqual(await find("yearly"));
  });

  it("schedules prints the 404 for an unknown schedule, and suggests the nearest id", async () => {
    for (const action of ["trigger", "pause", "resume"]) {
      const { code, stdout, stderr } = await command(action, "nigthly");
      expect([code, stdout, stderr]).toEqual([
        1,
        "",
        "error Schedule nigthly not found (404)\nhint  did you mean nightly?\n",
      ]);
    }
    for (const id of ["", "..", "a b", "../workflows/report"]) {
      const { code, stderr } = await command("pause", id);
      expect([code, stderr]).toEqual([2, "error <id>: expected the id of a schedule\n"]);
    }
    expect((await command("pause")).code).toBe(2);
    expect((await command("nightly")).code).toBe(2);
  });

  it("schedules sends a token, and asks for one if the server does", async () => {
    const secret = "0123456789abcdef0123456789abcdef-a-long-secret";
    const { cwd, url } = await open(
      { "schedules/s.ts": schedules },
      `auth: jwtAuth({ secret: "${secret}" }), authorize: ({ user }) => user?.id === "ada"`,
    );
    const refused = await run(["schedules", "trigger", "nightly"], url);
    expect([refused.code, refused.stdout]).toEqual([1, ""]);
    expect(refused.stderr).toMatch(/ \(401\)\nhint {2}pass a token with --token or AGENTSERVE_TOKEN; /);
    const { stdout: token } = await agentserve(["token", "--sub", "ada"], { cwd }).ended;
    const triggered = await run(["schedules", "trigger", "nightly", "--token", token.trim()], url);
    expect(triggered.stdout).toMatch(/^execution schedule:nightly:manual-\S+ started\n$/);
  });

  it("schedules and runs fork print the 403 of a server that has a provider and no authorize", async () => {
    const secret = "0123456789abcdef0123456789abcdef-a-long-secret";
    const { cwd, url } = await open({ "schedules/s.ts": schedules }, `auth: jwtAuth({ secret: "${secret}" })`);
    const { stdout } = await agentserve(["token", "--sub", "ada"], { cwd }).ended;
    const token = stdout.trim();
    for (const action of ["trigger", "pause", "resume"]) {
      const { code, stderr } = await run(["schedules", action, "nightly", "--token", token], url);
      expect([code, stderr.split("\n")[0]]).toEqual([
        1,
        "error Forbidden: schedule commands need authorize, see docs/auth.md (403)",
      ]);
    }
    await run(["call", "workflow", "report", "{}", "--token", token], url);
    const [{ executionId }] = JSON.parse((await run(["runs", "--json", "--token", token], url)).stdout);
    const { code, stderr } = await run(["runs", "fork", executionId, "--token", token], url);
    expect([code, stderr.split("\n")[0]]).toEqual([1, "error Forbidden: forks need authorize, see docs/auth.md (403)"]);
  });

  it("schedules fails like runs if no server listens", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const commands = [["runs"], ["schedules"], ["schedules", "trigger", "nightly"]];
    const [asked, ...others] = await Promise.all(commands.map((args) => run(args, url)));
    const [error] = asked!.stderr.split("; read the file");
    expect(error).toMatch(/^error Cannot connect to \S+ \(ECONNREFUSED\)\nhint {2}start a server with /);
    for (const { code, stdout, stderr } of others) expect([code, stdout, stderr]).toEqual([1, "", `${error}\n`]);
  });
});

describe("agentserve schedules, on a server that is not ours", () => {
  const json = { "content-type": "application/json" };
  const answer = async (data: unknown): Promise<string> => {
    const { url } = await pretend((_, response) => {
      response.writeHead(200, json).end(JSON.stringify({ success: true, data }));
    });
    return url;
  };
  /** Returns every byte that a command writes. */
  async function written(args: string[], url: string): Promise<string> {
    const { stdout, stderr } = await run(["schedules", ...args, "--url", url], "");
    return stdout + stderr;
  }
  const hostile = "a\u001B[2J\u009B\u202Eb\nerror c";
  const unsafeIn = (text: string) => ["\u001B", "\u009B", "\u202E", "\nerror c"].filter((part) => text.includes(part));

  it("schedules escapes text of a server that would change the terminal", async () => {
    const one = {
      id: hostile,
      workflowId: hostile,
      cron: hostile,
      timezone: hostile,
      lastAt: hostile,
      nextAt: hostile,
    };
    const other = { ...one, cron: undefined, every: hostile, paused: hostile };
    const url = await answer([one, other]);
    const table = await written([], url);
    expect(table.match(/a\\x1b\[2J\\x9b\\u202eb\\x0aerror c/g)).toHaveLength(4 + 3 + 1);
    expect(unsafeIn(table)).toEqual([]);
    const text = await written(["--json"], url);
    expect(unsafeIn(text)).toEqual([]);
    expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify([one, other])));

    const triggered = await written(["trigger", "x"], await answer({ executionId: `${hostile}; reboot` }));
    expect(unsafeIn(triggered)).toEqual([]);
    expect(triggered).toMatch(/runs show 'a\\x1b\[2J.*; reboot' --url/);
    for (const action of ["pause", "resume"])
      for (const paused of [true, false])
        expect(await written([action, "x"], await answer({ id: hostile, paused, nextAt: hostile }))).toMatch(
          paused ? /^Schedule x is paused\nresume it/ : /^Schedule x is resumed\n$/,
        );
  });

  it("schedules survives any JSON of a server", async () => {
    const odd = { toString: 1 };
    const commands = [[], ["trigger", "x"], ["pause", "x"]];
    const values = [null, 1, "text", [], odd];
    const rows = values.map((value) => ({ id: value, workflowId: value, cron: value, lastAt: value, nextAt: value }));
    expect(await written([], await answer([...values, ...rows, { every: 1_500 }, { every: 0.1 }]))).toMatch(
      /^schedule .*\n(.*\n){12}start one now with: .*\n$/,
    );
    for (const data of [odd, null, { executionId: odd }, { paused: "yes" }]) {
      const url = await answer(data);
      for (const args of commands)
        expect(await written(args, url)).toMatch(/^error Unexpected response from \S+: expected the JSON/);
    }
  });

  it("schedules shows how long ago the last run was, and when the next one is", async () => {
    const hour = 3_600_000;
    const now = Date.now();
    const at = (hours: number): string => new Date(now + hours * hour).toISOString();
    const url = await answer([
      { id: "one", workflowId: "w", every: "9h", lastAt: at(-3.5), nextAt: at(5.5) },
      { id: "two", workflowId: "w", every: 36 * hour, lastAt: at(-84), nextAt: at(-0.1) },
      { id: "three", workflowId: "w", every: 1_500, nextAt: at(50) },
    ]);
    expect((await run(["schedules"], url)).stdout.split("\n").map((line) => line.split(/ {2,}/).slice(2))).toEqual([
      ["times", "last", "next"],
      ["every 9h", "3 h ago", `${at(5.5)} (in 5 h)`],
      ["every 36h", "3 d ago", `${at(-0.1)} (now)`],
      ["every 1500ms", "never", `${at(50)} (in 2 d)`],
      [],
    ]);
  });

  it("schedules trigger says that an execution may have started if the connection is lost", async () => {
    const { url } = await pretend((_, response) => void response.destroy());
    const { code, stderr } = await run(["schedules", "trigger", "nightly"], url);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error The connection to \S+ was closed or timed out.*\nhint {2}the execution may have /);
    const held = await pretend((request) => void request.once("end", () => child.process.kill("SIGINT")));
    const child = agentserve(["schedules", "trigger", "nightly", "--url", held.url]);
    expect(await child.ended).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        new RegExp(`^error Interrupted\nhint {2}the execution may have started; .*runs --url ${held.url}\n`, "m"),
      ),
    });
  });
});
