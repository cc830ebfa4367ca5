import { defineWorkflow, type ExecutionView } from "agentserve";
import * as v from "valibot";
import { order } from "./order.ts";

/** The time zone of the days of a report. */
export const timezone = "Europe/Berlin";
const dayFormat = new Intl.DateTimeFormat("en-CA", { timeZone: timezone }); // 2026-01-31
/** The day of a moment, in the time zone of the reports. */
export const toDay = (time: Date): string => dayFormat.format(time);
const dayMs = 86_400_000;

/** Counts the orders of a day. */
export const report = defineWorkflow({
  id: "report",
  name: "Report of a day",
  purpose: "Counts the orders that came on a day",
  input: v.object({ day: v.pipe(v.string(), v.isoDate()) }),
})
  .andThen({
    id: "count",
    execute: async ({ data: { day }, runtime }) => {
      // A day of a time zone begins up to 14 hours before or after the one in UTC.
      const since = new Date(Date.parse(day) - dayMs);
      const until = new Date(Date.parse(day) + 2 * dayMs);
      const orders: ExecutionView[] = [];
      let cursor: string | undefined;
      do {
        // In a step, `runtime` sees the executions of its user: those of the shop.
        const page = await runtime.executions.list({ workflowId: order.id, since, until, limit: 200, cursor });
        orders.push(...page.items.filter(({ startAt }) => toDay(new Date(startAt)) === day));
        cursor = page.nextCursor ?? undefined;
      } while (cursor);
      const count = (status: ExecutionView["status"]) => orders.filter((one) => one.status === status).length;
      return { day, orders: orders.length, waiting: count("suspended"), failed: count("error") };
    },
  })
  // Here you would send it by mail.
  .andTap({ id: "log", execute: ({ data, logger }) => logger.info("Orders of the day", data) });
