import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { toCurl, toFetch, toRuntimeCall, type StartCommand } from "../../src/console/page/views/run/commands.ts";
import { createHostileTexts } from "../browser/hostile-texts.ts";
import { createProject } from "../harness/project.ts";

const special = [
  "it's \"quoted\" `and` $(rm -rf /) $HOME !! \\ \\' \n\t\r end",
  "'; echo hacked; '",
  "*/ ${1 + 1} </script>",
  "-d @/etc/passwd",
  "\\u0041 %s %n",
];
const texts = [...special, ...createHostileTexts(200)];
const input = {
  texts,
  ["__proto__"]: { polluted: true },
  "a key": null,
  constructor: 1,
  [special[0]!]: [[], {}, -0.5, 1e21, true],
};
const command: StartCommand = {
  url: "http://127.0.0.1:3141/workflows/it's/execute",
  workflowId: `it's "odd" \u202E\\`,
  input: JSON.parse(JSON.stringify(input, (_, value: unknown) => value)) as unknown,
  context: { tenant: "a'b" },
  userId: "o'hara",
  needsToken: false,
};
const body = { input: command.input, options: { userId: "o'hara", context: command.context } };

it.each(["sh", "bash"])("the console's curl command passes the input as one argument in %s", (shell) => {
  const script = `curl() { for one in "$@"; do printf '%s\\0' "$one"; done; }\n${toCurl(command)}`;
  const parts = execFileSync(shell, ["-c", script], { encoding: "utf8" }).split("\0");
  expect(parts.slice(0, -2)).toEqual(["-X", "POST", command.url, "-H", "content-type: application/json", "--data-raw"]);
  expect(JSON.parse(parts.at(-2)!)).toEqual(body);
});

it("the console's curl command reads the token from $TOKEN", () => {
  const script = `curl() { printf '%s\\n' "$@"; }\n${toCurl({ ...command, needsToken: true })}`;
  const printed = execFileSync("sh", ["-c", script], { encoding: "utf8", env: { ...process.env, TOKEN: "secret" } });
  expect(printed).toContain("authorization: Bearer secret\n");
});

it("the console's TypeScript commands send the input over HTTP, and start the workflow from code", () => {
  const folder = createProject({});
  const program = `
const sent: unknown[] = [];
const fetch = async (url: string, { body }: { body: string }) => (sent.push(url, JSON.parse(body)), { json: async () => 0 });
const runtime = { start: async (...all: unknown[]) => (sent.push(...all), { executionId: "" }) };
const console = { log() {} };
{ ${toFetch(command)} }
{ ${toRuntimeCall(command)} }
process.stdout.write(JSON.stringify(sent));
`;
  writeFileSync(join(folder, "program.mts"), program);
  const printed = execFileSync(process.execPath, [join(folder, "program.mts")], { encoding: "utf8" });
  const { context } = command;
  expect(JSON.parse(printed)).toEqual([command.url, body, command.workflowId, command.input, { context }]);
});

it("the console's commands have no hidden characters", () => {
  for (const text of [toCurl(command), toFetch(command), toRuntimeCall(command)]) {
    expect(text).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
  }
});
