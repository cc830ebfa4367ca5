import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import { config, startDev } from "./dev-server.ts";

const file = "schedules/each.ts";
/** A schedule whose executions append their ids and the number of the version to `effects.txt`. */
const each = (version: number, id = "each") => `import { appendFileSync } from "node:fs";
import { defineSchedule, defineWorkflow } from "agentserve";

export const note = defineWorkflow({ id: "note" }).andThen({
  id: "note",
  execute: ({ executionId }) => appendFileSync("effects.txt", executionId + " ${version}\\n"),
});
export const each = defineSchedule({ id: "${id}", every: "1s", workflow: note, overlap: "allow" });
`;

it("saves of `agentserve dev` change schedules without missing or repeating a tick", async () => {
  const saves = bySize(6, 30);
  const dev = await startDev(
    { "agents.config.ts": config, [file]: each(0) },
    { args: ["--port", "0", "--data", "data.db"] },
  );
  await dev.child.waitFor(/0 agents, 1 workflow, 1 schedule /);
  const effects = join(dev.folder, "effects.txt");
  const lines = (): string[] => (existsSync(effects) ? readFileSync(effects, "utf8").trimEnd().split("\n") : []);
  const ticks = (id: string): number[] =>
    lines().flatMap((line) => {
      const [, own, at] = /^schedule:(\w+):(\S+) \d+$/.exec(line) ?? [];
      return own === id ? [Date.parse(at!)] : [];
    });
  await until(() => lines().length > 0, "the first tick");
  for (let version = 1; version <= saves; version++) {
    await sleep((version * 370) % 1_000); // at any moment between two ticks
    await dev.serves({ [file]: each(version) });
  }
  await until(() => lines().some((line) => line.endsWith(` ${saves}`)), "a tick of the last version");
  // A save that cannot be loaded changes nothing.
  await dev.refuses({ [file]: each(0).replace('every: "1s"', 'cron: "* * *"') });
  const before = lines().length;
  await until(() => lines().length >= before + 2, "further ticks");
  await dev.serves({ [file]: each(saves + 1, "other") });
  await dev.child.waitFor(/workflow note changed, schedule other added, schedule each removed/);
  await until(() => ticks("other").length >= 2, "ticks of the schedule with another id");
  for (const id of ["each", "other"]) {
    const begun = ticks(id);
    expect(begun).toEqual(begun.map((_, index) => begun[0]! + index * 1_000));
  }
  expect(ticks("each").at(-1)!).toBeLessThanOrEqual(ticks("other")[0]!);
});
