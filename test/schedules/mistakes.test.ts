import { describe, expect, it } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { oneIn } from "../harness/size.ts";

const define = (body: string): string =>
  `import { defineConfig } from "agentserve";\nexport default defineConfig(${body});\n`;
const workflow = `import { defineWorkflow } from "agentserve";\nexport const report = defineWorkflow({ id: "report" });\n`;
const schedule = (options: string): string =>
  `import { defineSchedule } from "agentserve";\nexport default defineSchedule({ ${options} });\n`;
const nightly = `id: "nightly", workflow: "report", cron: "0 3 * * *"`;

describe.each(["start", "dev"])("agentserve %s ends with 1 and names the file and the schedule", (command) => {
  const mistakes: [title: string, files: Record<string, string>, line: RegExp][] = [
    [
      "of a wrong cron",
      { "schedules/night.ts": schedule(`id: "nightly", workflow: "report", cron: "0 25 * * *"`) },
      /^error schedules\/night\.ts:2:\d+: Schedule nightly: cron: "0 25 \* \* \*" is not a cron pattern: Invalid value for hour: 25$/,
    ],
    [
      "of a cron that is never due, in the config",
      {
        "agents.config.ts": `import { defineConfig, defineSchedule } from "agentserve";
export default defineConfig({
  schedules: [defineSchedule({ id: "never", workflow: "report", cron: "0 0 30 2 *" })],
});`,
      },
      /^error agents\.config\.ts:3:\d+: Schedule never: cron: "0 0 30 2 \*" is never due$/,
    ],
    [
      "of an unknown workflow",
      { "schedules/night.ts": schedule(nightly.replace("report", "reprt")) },
      /^error schedules\/night\.ts: schedule nightly: there is no workflow reprt$/,
    ],
    [
      "of two schedules with one id",
      { "schedules/a.ts": schedule(nightly), "schedules/b.ts": schedule(nightly) },
      /^error Two schedules have the id nightly: in schedules\/a\.ts and in schedules\/b\.ts$/,
    ],
    [
      "of something that is no schedule",
      { "agents.config.ts": define(`{ schedules: [{ id: "nightly" } as never] }`) },
      /^error agents\.config\.ts: schedules\.0: expected a schedule created by defineSchedule\(\), found an object$/,
    ],
    [
      "or the folder that is missing",
      { "agents.config.ts": define(`{ schedulesDir: "clock" }`) },
      /^error schedulesDir: clock is not a folder$/,
    ],
  ];
  it.each(command === "start" ? mistakes : oneIn(3, mistakes))("%s", async (_, files, line) => {
    const cwd = createProject({ "agents.config.ts": define("{}"), "workflows/report.ts": workflow, ...files });
    const { code, stdout, stderr } = await agentserve([command, "--port", "0"], { cwd }).ended;
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr.match(/^error /gm)).toHaveLength(1);
    expect(stderr.split("\n")[0]).toMatch(line);
    expect(stderr).not.toMatch(/^ +at /m);
  });
});
