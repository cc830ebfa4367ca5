import { andSleep, andSleepUntil, andThen, defineWorkflow } from "agentserve";
import { createClock, type TestClock } from "agentserve/testing";
import { describe, expect, it } from "vitest";
import { after, hour, minute, newFile, serve, start } from "./serve.ts";

const flaky = new Set<string>();
const workflows = [
  defineWorkflow({ id: "duration" }).andSleep({ id: "nap", duration: "2h" }),
  defineWorkflow({ id: "date" }).andSleepUntil({ id: "nap", date: after(2 * hour) }),
  defineWorkflow({ id: "deadline" }).andThen({
    id: "ask",
    execute: ({ suspend, timedOut }) => (timedOut ? "late" : suspend("Ok?", undefined, { timeout: "2h" })),
  }),
  defineWorkflow({ id: "deadline-date" }).andThen({
    id: "ask",
    execute: ({ suspend, timedOut }) =>
      timedOut ? "late" : suspend("Ok?", undefined, { timeout: new Date(after(2 * hour)) }),
  }),
  defineWorkflow({ id: "event" }).andWaitFor({ id: "paid", event: "paid", timeout: "2h" }),
  defineWorkflow({ id: "retry" }).andThen({
    id: "pay",
    retry: { attempts: 2, delay: 2 * hour },
    execute: ({ executionId }) => {
      if (flaky.delete(executionId)) throw new Error("not yet");
      return "paid";
    },
  }),
];
const durations = ["duration", "deadline", "event", "retry"];
const dates = ["date", "deadline-date"];

async function begin(server: ReturnType<typeof serve>): Promise<void> {
  flaky.add("retry");
  for (const { id } of workflows) expect((await server.begin(id)).status).toBe(202);
  await server.clock.advance(0);
}
async function ended(server: ReturnType<typeof serve>): Promise<string[]> {
  const states = await Promise.all(workflows.map(({ id }) => server.state(id)));
  return workflows.map(({ id }) => id).filter((_, index) => states[index].status === "completed");
}
/** Another server on the same file, with a monotonic clock that starts anew. */
async function restart(server: ReturnType<typeof serve>, path: string): Promise<ReturnType<typeof serve>> {
  const now = server.clock.now();
  await server.close();
  const next = serve({ workflows }, { file: path, clock: createClock({ now }) });
  await next.get("/workflows");
  await next.clock.advance(0);
  return next;
}
const all = workflows.map(({ id }) => id);

describe("a jump of the wall clock", () => {
  it("ends sleeps until a date at once after a jump forward, and durations at their time", async () => {
    const server = serve({ workflows });
    await begin(server);
    await server.clock.advance("30m");
    await server.clock.jump("3h");
    expect(await ended(server)).toEqual(dates);
    await server.clock.advance(90 * minute - 1);
    expect(await ended(server), "a millisecond before").toEqual(dates);
    await server.clock.advance(1);
    expect(await ended(server)).toEqual(all);
  });

  it("delays sleeps until a date after a jump back, and no durations", async () => {
    const server = serve({ workflows });
    await begin(server);
    await server.clock.advance("30m");
    await server.clock.jump("-1h");
    await server.clock.advance(90 * minute - 1);
    expect(await ended(server)).toEqual([]);
    await server.clock.advance(1);
    expect(await ended(server)).toEqual(durations);
    await server.clock.advance(hour - 1);
    expect(await ended(server), "a millisecond before").toEqual(durations);
    await server.clock.advance(1);
    expect(await ended(server)).toEqual(all);
  });

  it.each([
    ["forward", "1h", 30 * minute],
    ["back", "-1h", 150 * minute],
  ])("lets every wait follow the wall clock after a jump %s and a restart", async (_, by, left) => {
    const path = newFile();
    const first = serve({ workflows }, { file: path });
    await begin(first);
    await first.clock.advance("30m");
    await first.clock.jump(by);
    const second = await restart(first, path);
    await second.clock.advance(left - 1);
    expect(await ended(second), "a millisecond before").toEqual([]);
    await second.clock.advance(1);
    expect(await ended(second)).toEqual(all);
  });

  it.each([
    ["forward", "3h", all],
    ["back", "-1h", []],
  ])("counts a jump %s while no server runs for durations as well", async (_, by, expected) => {
    const path = newFile();
    const first = serve({ workflows }, { file: path });
    await begin(first);
    await first.clock.advance("30m");
    await first.close();
    await first.clock.jump(by);
    const second = await restart(first, path);
    expect(await ended(second)).toEqual(expected);
    if (expected.length > 0) return;
    await second.clock.advance(150 * minute);
    expect(await ended(second)).toEqual(all);
  });

  it("does not shift durations that begin after a jump, or that are left when another ends", async () => {
    const both = defineWorkflow({ id: "both" }).andAll({
      id: "all",
      steps: [
        andSleep({ id: "one", duration: "1h" }),
        andSleep({ id: "three", duration: "3h" }),
        andThen({ id: "ask", execute: ({ suspend, resumeData }) => resumeData ?? suspend("Ok?") }),
        andSleepUntil({ id: "date", date: after(90 * minute) }),
      ],
    });
    const later = defineWorkflow({ id: "later" }).andSleep({ id: "nap", duration: "1h" });
    for (const by of [hour, -hour]) {
      const server = serve({ workflows: [both, later] }, { clock: createClock({ now: start }) as TestClock });
      await server.begin("both");
      await server.clock.advance(30 * minute);
      await server.clock.jump(by);
      await server.begin("later");
      await server.clock.advance(hour - 1);
      expect((await server.state("later")).status, `${by}`).toBe("suspended");
      await server.clock.advance(1);
      expect((await server.state("later")).status, `${by}`).toBe("completed");
      // 90 minutes have passed. A person resumes, and the execution is suspended again.
      expect((await server.resume("both", { resumeData: true })).status).toBe(202);
      await server.clock.advance(90 * minute - 1);
      expect((await server.state("both")).status, `${by}`).toBe("suspended");
      await server.clock.advance(1);
      expect((await server.state("both")).status, `${by}`).toBe("completed");
    }
  });
});

it("refuses a jump or an advance of a test clock that is not a time", () => {
  const clock = createClock();
  expect(() => clock.jump("soon")).toThrow("jump(): expected milliseconds or");
  expect(() => clock.jump(Number.NaN)).toThrow("jump(): expected milliseconds or");
  expect(() => clock.advance(-1)).toThrow("advance(): expected milliseconds or");
});
