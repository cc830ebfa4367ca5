import { DatabaseSync } from "node:sqlite";
import { andThen, andWaitFor, defineWorkflow } from "agentserve";
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

describe("an event counts before a deadline that came after it", () => {
  it.each(cases)("at a resume, if a request has suspended the execution: %s", async (_, events, expected) => {
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
  });

  it.each(cases)("at the next start, if the process died before it was handed out: %s", async (_, events, expected) => {
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
  });
});
