import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { agentserve, bin, run } from "../harness/cli.ts";
import { runHere } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";

const commands = ["dev", "start", "init", "call", "token", "routes", "types", "runs", "schedules", "logs", "doctor"];

describe("a wrong command line", () => {
  it.each<[title: string, args: string[], error: RegExp, hint: string]>([
    ["an unknown command", ["xyzzy"], /unknown command 'xyzzy'/, "agentserve --help"],
    ["a misspelt command", ["strat", "--port", "1"], /unknown command 'strat'/, "did you mean start?"],
    ["an unknown option", ["dev", "--xyzzy"], /unknown option '--xyzzy'/, "agentserve dev --help"],
    ["a misspelt option", ["dev", "--prot", "1"], /unknown option '--prot'/, "did you mean --port?"],
    ["an option of another command", ["dev", "--stric"], /unknown option '--stric'/, "agentserve dev --help"],
    ["a misspelt global option", ["--versoin"], /unknown option '--versoin'/, "did you mean --version?"],
    [
      "an option without its value",
      ["start", "--port"],
      /'--port <number>' argument missing/,
      "agentserve start --help",
    ],
    ["an argument too many", ["dev", "extra"], /too many arguments/, "agentserve dev --help"],
    ["a missing argument", ["call", "workflow"], /missing required argument 'id'/, "agentserve call --help"],
    [
      "an unknown template",
      ["init", "--template", "startr"],
      /'startr' is invalid.*starter, minimal, pipeline, webhook, support-desk/,
      "agentserve init --help",
    ],
    ["an empty command", [""], /unknown command ''/, "agentserve --help"],
  ])("ends with 2, an error and a hint for %s", async (_, args, error, hint) => {
    const { code, stdout, stderr } = await runHere(args);
    expect([code, stdout]).toEqual([2, ""]);
    const lines = stderr.split("\n");
    expect(lines).toEqual([expect.stringMatching(error), expect.stringMatching(/^hint {2}/), ""]);
    expect(lines[0]).toMatch(/^error /);
    expect(lines[1]).toContain(hint);
  });

  it("escapes control characters of wrong arguments in its error", async () => {
    for (const args of [
      ["a\u001B[31m\nerror b"],
      ["dev", "--a\u001B[31m"],
      ["dev", "--config", "a\u001B[31m\nerror b"],
    ]) {
      const { stderr: raw } = await runHere(args);
      expect.soft(raw, JSON.stringify(args)).not.toContain("\u001B");
      expect.soft(raw.match(/^error /gm), JSON.stringify(args)).toHaveLength(1);
    }
  });
});

describe("help", () => {
  it.each(commands)("prints help with examples for %s", async (command) => {
    const { code, stdout, stderr } = await runHere([command, "--help"]);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(new RegExp(`^Usage: agentserve ${command} `));
    expect(stdout).toMatch(new RegExp(`^Examples?:\\n {2}\\$ .*npx agentserve ${command}`, "m"));
  });

  it("--help lists every command and the exit codes", async () => {
    const { code, stdout, stderr } = await agentserve(["--help"]).ended;
    expect([code, stderr]).toEqual([0, ""]);
    for (const command of commands) expect(stdout).toMatch(new RegExp(`^ {2}${command} `, "m"));
    expect(stdout).toMatch(/^Exit codes:\n {2}0 .*\n {2}1 .*\n {2}2 .*\n/m);
    expect((await runHere(["help"])).stdout).toBe(stdout);
  });

  it("prints its help when it is run without a command", async () => {
    const { stdout, stderr } = await runHere([]);
    expect(stdout + stderr).toMatch(/^Usage: agentserve/);
    expect(stdout + stderr).toContain("Examples:");
  });
});

describe("colours and stacks", () => {
  /** Every byte that is written about a config that throws. */
  async function broken(args: string[], env: Record<string, string> = {}): Promise<string> {
    const cwd = createProject({ "agents.config.ts": `\nthrow new Error("no luck");\n` });
    const { NO_COLOR: _, FORCE_COLOR: __, ...own } = process.env;
    const child = agentserve(args, { cwd, env: { ...own, ...env } });
    let raw = "";
    for (const name of ["stdout", "stderr"] as const) child.process[name]!.on("data", (chunk) => (raw += chunk));
    expect((await child.ended).code).toBe(1);
    return raw;
  }
  const plain = "error agents.config.ts:2:7: no luck\n";

  it("prints colours outside of a terminal only with FORCE_COLOR", async () => {
    expect(await broken(["start"])).toBe(plain);
    expect(await broken(["start"], { NO_COLOR: "1", TERM: "xterm-256color" })).toBe(plain);
    expect(await broken(["start"], { FORCE_COLOR: "1" })).toContain("\u001B[31merror");
  });

  it.runIf(existsSync("/usr/bin/script"))("prints colours in a terminal, unless NO_COLOR is set", async () => {
    const cwd = createProject({ "agents.config.ts": `\nthrow new Error("no luck");\n` });
    const shown = async (set: Record<string, string>): Promise<string> => {
      const { NO_COLOR: _, FORCE_COLOR: __, CI: ___, ...own } = process.env;
      const env = { ...own, TERM: "xterm-256color", ...set };
      const child = run("/usr/bin/script", ["-qec", `'${process.execPath}' '${bin}' start`, "/dev/null"], { cwd, env });
      let raw = "";
      child.process.stdout!.on("data", (chunk) => (raw += chunk));
      await child.ended;
      return raw;
    };
    expect(await shown({})).toContain("\u001B[31merror");
    const without = await shown({ NO_COLOR: "1" });
    expect(without).toContain("error agents.config.ts:2:7: no luck");
    expect(without).not.toContain("\u001B[31m");
  });

  it("prints the stack of an error only with --debug", async () => {
    expect(await broken(["start"])).not.toContain("    at ");
    expect(await broken(["--debug", "start"])).toContain("    at ");
  });
});
