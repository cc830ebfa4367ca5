import { describe, expectTypeOf, it } from "vitest";
import * as v from "valibot";
import { defineAgent, defineSchedule, defineWorkflow, type ScheduleDefinition } from "agentserve";

// Compiled by `tsc -p test`; what is marked @ts-expect-error must not compile. Ids of the registry: test/cli/types.test.ts.
const order = defineWorkflow({
  id: "order",
  input: v.object({ amount: v.pipe(v.string(), v.transform(Number)) }),
});
const optional = defineWorkflow({ id: "optional", input: v.object({ days: v.optional(v.number()) }) });
const free = defineWorkflow({ id: "free" });
const cron = "0 3 * * *";

describe("defineSchedule", () => {
  it("types the input of a schedule by the schema of its workflow", () => {
    () =>
      expectTypeOf(
        defineSchedule({ id: "s", workflow: order, cron, input: { amount: "5" } }),
      ).toEqualTypeOf<ScheduleDefinition>();
    // @ts-expect-error the schema takes a text
    () => defineSchedule({ id: "s", workflow: order, cron, input: { amount: 5 } });
    // @ts-expect-error there is no amount
    () => defineSchedule({ id: "s", workflow: order, cron, input: {} });
    // @ts-expect-error days are a number
    () => defineSchedule({ id: "s", workflow: optional, cron, input: { days: "7" } });
  });

  it("takes a schedule without an input only if its workflow needs none", () => {
    () => defineSchedule({ id: "s", workflow: free, cron });
    () => defineSchedule({ id: "s", workflow: optional, cron });
    () => defineSchedule({ id: "s", workflow: "any", cron });
    // @ts-expect-error an amount is required
    () => defineSchedule({ id: "s", workflow: order, cron });
  });

  it("types the function that makes the input of a schedule's tick", () => {
    () =>
      defineSchedule({
        id: "s",
        workflow: order,
        cron,
        input: (tick) => {
          expectTypeOf(tick.at).toEqualTypeOf<Date>();
          return { amount: tick.at.toISOString() };
        },
      });
    // @ts-expect-error the schema takes a text
    () => defineSchedule({ id: "s", workflow: order, cron, input: ({ at }) => ({ amount: at.getTime() }) });
    () => defineSchedule({ id: "s", workflow: order, cron, input: async () => ({ amount: "5" }) });
    // @ts-expect-error the schema takes a text
    () => defineSchedule({ id: "s", workflow: order, cron, input: async () => ({ amount: 5 }) });
  });

  it("takes a schedule with either cron or every", () => {
    () => defineSchedule({ id: "s", workflow: free, every: "15m" });
    () => defineSchedule({ id: "s", workflow: free, every: 60_000 });
    // @ts-expect-error an interval counts in UTC
    () => defineSchedule({ id: "s", workflow: free, every: "15m", timezone: "Europe/Berlin" });
    // @ts-expect-error both
    () => defineSchedule({ id: "s", workflow: free, cron, every: "15m" });
    // @ts-expect-error neither
    () => defineSchedule({ id: "s", workflow: free });
  });

  it("does not compile a schedule with a wrong or unknown option, or without a workflow", () => {
    () =>
      defineSchedule({
        id: "s",
        workflow: free,
        cron,
        user: { id: 7, role: "clock" },
        overlap: "queue",
        catchUp: "1h",
      });
    // @ts-expect-error no such overlap
    () => defineSchedule({ id: "s", workflow: free, cron, overlap: "wait" });
    // @ts-expect-error a user has an id
    () => defineSchedule({ id: "s", workflow: free, cron, user: {} });
    // @ts-expect-error a duration, or false
    () => defineSchedule({ id: "s", workflow: free, cron, catchUp: true });
    // @ts-expect-error no such option
    () => defineSchedule({ id: "s", workflow: free, cron, timeZone: "UTC" });
    const agent = () => defineAgent({ id: "a", instructions: "", model: "echo/x" });
    // @ts-expect-error an agent is not a workflow
    () => defineSchedule({ id: "s", workflow: agent(), cron });
  });
});
