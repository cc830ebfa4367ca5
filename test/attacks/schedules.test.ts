// Each of these changes makes tests of this file fail: `trigger`, `pause` or `resume` that only ask an `authorize`
// (`findSchedule` in `src/schedules/routes`); a check of a schedule by the spelling of its path.
import { describe, expect, it } from "vitest";
import { Random } from "../faults/kills/plan.ts";
import { seed } from "../harness/seed.ts";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import type { Rule } from "./attack-app.ts";
import { all, assault, callers, commandsOf, openWorld, spellSome } from "./world.ts";

const verbs = ["trigger", "pause", "resume"];
const schedules = ["yearly", "beating"];
const bodies = [undefined, {}, { user: callers.grace, as: { id: "schedule:yearly" } }, { input: {}, force: true }];
const headers = [[], ["Prefer: respond-async"], ["X-Agentserve-Console: 1"], ["X-User-Id: schedule:yearly"]];

describe.each<Rule>(["none", "ownership", "desk"])("with the rule %s", (rule) => {
  const world = openWorld({ rule, hasSchedules: true });

  /** Nothing was triggered or paid, and no schedule is paused. */
  async function expectNothing(findings: readonly string[]): Promise<void> {
    expect(findings).toEqual([]);
    const executions: any[] = await world().code("executions");
    const triggered = executions.filter((one) => one.workflowId === "payday" || one.executionId.includes("manual"));
    expect([triggered, world().effects("payment")]).toEqual([[], []]);
    const beats = world().effects("beat").length;
    await until(() => world().effects("beat").length > beats + 1, "beats of the schedule: it may be paused");
    const { body, shown } = await world().get(callers.ada, "/schedules");
    const isPaused = rule === "desk" ? [] : [false, false]; // its `authorize` shows none
    expect(
      body.data?.map(({ paused }: any) => paused),
      shown,
    ).toEqual(isPaused);
  }

  it("trigger, pause and resume of a schedule are 403 for every caller, and nothing runs and nothing stops", async () => {
    const findings: string[] = [];
    for (const caller of [...all, { id: "schedule:yearly" }, { id: "schedule" }])
      for (const path of schedules.flatMap((id) => verbs.map((verb) => `/schedules/${id}/${verb}`))) {
        const { status, body, shown } = await world().post(caller, path);
        if (status !== 403 || !/^Forbidden\b/.test(body.error)) findings.push(shown);
      }
    await expectNothing(findings);
  });

  it("no spelling and no body of a request triggers, pauses or resumes a schedule", async () => {
    const random = new Random(seed);
    const attacks = Array.from({ length: bySize(250, 3_000) }, () => ({
      caller: random.pick(...all),
      spelling: spellSome(
        random,
        `/schedules/${random.pick(...schedules)}/${random.pick(...verbs)}`,
        random.pick<unknown>(...bodies),
      ),
      more: random.pick(...headers),
    }));
    const replies = await assault(world(), attacks);
    await expectNothing(replies.filter((reply) => / → 20\d .*"(executionId|paused)"/.test(reply)));
  });

  it("agentserve schedules triggers, pauses and resumes nothing with the token of a caller", async () => {
    const commands = verbs.map((verb) => `schedules ${verb} yearly`);
    const { ada, grace, nobody } = callers;
    const findings: string[] = [];
    for (const caller of [ada, grace, nobody]) findings.push(...(await commandsOf(world(), caller, commands)));
    await expectNothing(findings);
  });
});
