import { DatabaseSync } from "node:sqlite";
import { andSleep, andThen, andWaitFor, andWorkflow, defineWorkflow } from "agentserve";
import { createClock } from "agentserve/testing";
import { describe, expect, it } from "vitest";
import * as v from "valibot";
import { hour, newFile, query, serve } from "./serve.ts";

const wait = { id: "paid", event: "paid", timeout: "2h", schema: v.string() } as const;
/** The events that come before the deadline, and the value of the wait. */
const cases = [
  ["one", ["paid"], "paid"],
  ["one that the schema refuses", [7], null],
  ["a refused one and another", [7, "paid"], "paid"],
  ["none", [], null],
] as const;

describe("an event before a deadline", () => {
  it.each(cases)(
    "takes an event before its deadline at the resume of an execution suspended by request: %s",
    async (_, events, expected) => {
      const { promise: gate, resolve: open } = Promise.withResolvers<void>();
      const steps = [andWaitFor(wait), andThen({ id: "gate", execute: () => gate })] as const;
      const workflow = defineWorkflow({ id: "w" }).andAll({ id: "all", steps });
      const { begin, clock, post, resume, state } = serve({ workflows: [workflow] });
      await begin("w");
      await clock.advance("10m");
      expect((await post("/workflows/w/executions/w/suspend", {})).status).toBe(200);
      open();
      await clock.advance("1h");
      for (const data of events) expect((await post("/events", { name: "paid", data })).status).toBe(202);
      await clock.advance("1h");
      await post("/events", { name: "paid", data: "too late" });
      await clock.advance("1h");
      expect((await state("w")).status).toBe("suspended");
      expect((await resume("w")).status).toBe(202);
      await clock.advance(0);
      expect(await state("w")).toMatchObject({ status: "completed", result: [expected, null] });
    },
  );

  it.each(cases)(
    "takes an event before its deadline at the next start after a crash: %s",
    async (_, events, expected) => {
      const file = newFile();
      const workflows = [defineWorkflow({ id: "w" }).andWaitFor(wait)];
      const first = serve({ workflows }, { file });
      await first.begin("w");
      await first.clock.advance("1h");
      await first.close();
      // As the process has left them: stored, and answered with 202.
      const db = new DatabaseSync(file);
      const add = db.prepare(
        "insert into events(number, id, name, key, at, code, data) values(?, ?, 'paid', '', ?, 0, ?)",
      );
      const all = [...events.map((data) => [data, 0] as const), ["too late", 2 * hour] as const];
      for (const [index, [data, ms]] of all.entries())
        add.run(10 + index, `e${index}`, first.clock.now() + ms, JSON.stringify(data));
      db.close();
      const second = serve({ workflows }, { file, clock: createClock({ now: first.clock.now() + 3 * hour }) });
      await second.get("/workflows");
      await second.clock.advance("1m");
      expect(await second.state("w")).toMatchObject({ status: "completed", result: expected });
      expect(query(file, "select * from timers union all select * from event_waits")).toEqual([]);
    },
  );
});

/** The times of waits that begin together, in hours. */
interface Times {
  readonly sleep: number;
  readonly event: number;
  /** The deadline of the wait for the event. */
  readonly deadline: number | undefined;
  /** The deadline of a wait for a person. */
  readonly person: number | undefined;
}
const hours = [1, 2, 3];
const combinations: readonly Times[] = hours.flatMap((sleep) =>
  hours.flatMap((event) =>
    [...hours, undefined].flatMap((deadline) =>
      [...hours, undefined].map((person) => ({ sleep, event, deadline, person })),
    ),
  ),
);

/** The ends of the waits, without the one that came too late, each with its place. Those with the same place may change it. */
function toPlaces({ sleep, event, deadline, person }: Times): Map<string, number> {
  const hasTimedOut = deadline !== undefined && deadline < event;
  return new Map([
    ["sleep", sleep],
    ...(person === undefined ? [] : [["person", person] as const]),
    hasTimedOut ? ["deadline", deadline] : ["event", event + 0.5], // after the others of the same millisecond
  ]);
}

describe("the order of waits at a resume", () => {
  const key = ({ executionId }: { executionId: string }): string => executionId;
  const toMs = (some: number | undefined) => (some === undefined ? undefined : some * hour);
  const toSteps = ({ sleep, deadline, person }: Times) => [
    andSleep({ id: "sleep", duration: sleep * hour }),
    andWaitFor({ id: "wait", event: "paid", key, timeout: toMs(deadline) }),
    andThen({
      id: "person",
      execute: ({ suspend, timedOut }: any): unknown =>
        timedOut ? "person" : suspend("?", undefined, { timeout: toMs(person) }),
    }),
  ];

  /** Begins an execution of each workflow, suspends it, lets all times pass and resumes it. */
  async function play(workflows: any[], open: () => void, file?: string): Promise<ReturnType<typeof serve>> {
    const limits = { runningExecutions: workflows.length };
    const server = serve({ workflows, server: { limits } }, { file });
    for (const { id } of workflows) await server.begin(id);
    await server.clock.advance(0);
    for (const { id } of workflows)
      expect((await server.post(`/workflows/${id}/executions/${id}/suspend`, {})).status, id).toBe(200);
    open();
    for (const now of hours) {
      await server.clock.advance("1h");
      for (const [index, { event }] of combinations.entries())
        if (event === now) await server.post("/events", { name: "paid", key: `w${index}`, data: "event" });
    }
    await server.clock.advance("1h");
    for (const { id } of workflows) {
      expect((await server.state(id)).status).toBe("suspended");
      expect((await server.resume(id)).status).toBe(202);
    }
    await server.clock.advance(0);
    return server;
  }

  it(`lets the earliest wait win a race at a resume (${combinations.length} combinations)`, async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const workflows = combinations.map((times, index) => {
      const race = defineWorkflow({ id: "race" }).andRace({ id: "race", steps: toSteps(times) as any });
      const all = [andWorkflow({ id: "sub", workflow: race as any }), andThen({ id: "gate", execute: () => gate })];
      return defineWorkflow({ id: `w${index}` }).andAll({ id: "all", steps: all as any });
    });
    const server = await play(workflows, open);
    const values: Record<string, unknown> = { sleep: {}, event: "event", deadline: null };
    for (const [index, times] of combinations.entries()) {
      const { status, result } = await server.state(`w${index}`);
      const places = toPlaces(times);
      places.delete("person"); // its code runs, and ends later
      const first = Math.min(...places.values());
      const winners = [...places].flatMap(([name, place]) => (place === first ? [values[name]] : []));
      expect({ times, status }).toEqual({ times, status: "completed" });
      expect(winners, JSON.stringify(times)).toContainEqual(result[0]);
    }
  });

  it(`writes the ends of waits to the journal in the order of their times (${combinations.length} combinations)`, async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const workflows = combinations.map((times, index) => {
      const all = [...toSteps(times), andThen({ id: "gate", execute: () => gate })];
      return defineWorkflow({ id: `w${index}` }).andAll({ id: "all", steps: all as any });
    });
    const file = newFile();
    const server = await play(workflows, open, file);
    const rows = query<{ workflow: string; key: string; body: string }>(
      file,
      `select workflow, key, body from journal join executions using(number)
        where kind = 'wake' order by n`,
    );
    for (const [index, times] of combinations.entries()) {
      const wakes = rows.filter(({ workflow }) => workflow === `w${index}`);
      const names = wakes.map(({ key: name, body }) =>
        name === "~wait#1" ? (JSON.parse(body).event ? "event" : "deadline") : name.slice(1, -2),
      );
      const { status } = await server.state(`w${index}`);
      const expected = times.person === undefined ? "suspended" : "completed";
      const places = toPlaces(times);
      const found = names.map((name) => places.get(name));
      expect({ times, status, found }).toEqual({ times, status: expected, found: [...places.values()].toSorted() });
    }
  });

  it("lets the oldest of several events win a race, whatever the order of the branches", async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const branches = ["a", "b", "c"].map((event) => andWaitFor({ id: event, event }));
    const race = defineWorkflow({ id: "race" }).andRace({ id: "race", steps: branches });
    const all = [andWorkflow({ id: "sub", workflow: race }), andThen({ id: "gate", execute: () => gate })] as const;
    const server = serve({ workflows: [defineWorkflow({ id: "w" }).andAll({ id: "all", steps: all })] });
    await server.begin("w");
    await server.clock.advance(0);
    await server.post("/workflows/w/executions/w/suspend", {});
    open();
    for (const name of ["c", "a", "b"]) await server.post("/events", { name, data: name });
    await server.clock.advance("1h");
    expect((await server.resume("w")).status).toBe(202);
    await server.clock.advance(0);
    expect(await server.state("w")).toMatchObject({ status: "completed", result: ["c", null] });
  });
});
