import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { agentserve, bin, run } from "../harness/cli.ts";
import { runHere } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";

const commands = ["dev", "start", "init", "call", "token", "routes", "types", "runs", "schedules", "logs", "doctor"];

describe("a command line that is wrong is said in two lines, and ends with 2", () => {
  it.each<[title: string, args: string[], error: RegExp, hint: string]>([
    ["a command that is none", ["xyzzy"], /unknown command 'xyzzy'/, "agentserve --help"],
    ["a command that is nearly one", ["strat", "--port", "1"], /unknown command 'strat'/, "did you mean start?"],
    ["an option that is none", ["dev", "--xyzzy"], /unknown option '--xyzzy'/, "agentserve dev --help"],
    ["an option that is nearly one", ["dev", "--prot", "1"], /unknown option '--prot'/, "did you mean --port?"],
    ["an option of another command", ["dev", "--stric"], /unknown option '--stric'/, "agentserve dev --help"],
    [
      "an option that is nearly one of all commands",
      ["--versoin"],
      /unknown option '--versoin'/,
      "did you mean --version?",
    ],
    [
      "an option without its value",
      ["start", "--port"],
      /'--port <number>' argument missing/,
      "agentserve start --help",
    ],
    ["an argument too many", ["dev", "extra"], /too many arguments/, "agentserve dev --help"],
    ["an argument too few", ["call", "workflow"], /missing required argument 'id'/, "agentserve call --help"],
    [
      "a choice that is none",
      ["init", "--template", "startr"],
      /'startr' is invalid.*starter, minimal, pipeline, webhook, support-desk/,
      "agentserve init --help",
    ],
    ["an empty command", [""], /unknown command ''/, "agentserve --help"],
  ])("%s", async (_, args, error, hint) => {
    const { code, stdout, stderr } = await runHere(args);
    expect([code, stdout]).toEqual([2, ""]);
    const lines = stderr.split("\n");
    expect(lines).toEqual([expect.stringMatching(error), expect.stringMatching(/^hint {2}/), ""]);
    expect(lines[0]).toMatch(/^error /);
    expect(lines[1]).toContain(hint);
  });

  it("escape sequences and lines of an argument stay what they are: text", async () => {
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
  it.each(commands)("of %s has examples", async (command) => {
    const { code, stdout, stderr } = await runHere([command, "--help"]);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(new RegExp(`^Usage: agentserve ${command} `));
    expect(stdout).toMatch(new RegExp(`^Examples?:\\n {2}\\$ .*npx agentserve ${command}`, "m"));
  });

  it("lists every command and the exit codes", async () => {
    const { code, stdout, stderr } = await agentserve(["--help"]).ended;
    expect([code, stderr]).toEqual([0, ""]);
    for (const command of commands) expect(stdout).toMatch(new RegExp(`^ {2}${command} `, "m"));
    expect(stdout).toMatch(/^Exit codes:\n {2}0 .*\n {2}1 .*\n {2}2 .*\n/m);
    expect((await runHere(["help"])).stdout).toBe(stdout);
  });

  it("is shown to those who ask for nothing", async () => {
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

  it("colours are for terminals, and for those who ask for them", async () => {
    expect(await broken(["start"])).toBe(plain);
    expect(await broken(["start"], { NO_COLOR: "1", TERM: "xterm-256color" })).toBe(plain);
    expect(await broken(["start"], { FORCE_COLOR: "1" })).toContain("\u001B[31merror");
  });

  it.runIf(existsSync("/usr/bin/script"))("a terminal has them, unless NO_COLOR is set", async () => {
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

  it("a stack is for those who ask for it with --debug", async () => {
    expect(await broken(["start"])).not.toContain("    at ");
    expect(await broken(["--debug", "start"])).toContain("    at ");
  });
});
