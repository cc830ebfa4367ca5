import { defineSchedule } from "agentserve";
import { shop } from "../users.ts";
import { report, timezone, toDay } from "../workflows/report.ts";

/** Reports each day in the night after it. */
export const nightly = defineSchedule({
  id: "nightly",
  cron: "0 3 * * *", // 3:00 each day, also when clocks change
  timezone,
  workflow: report,
  // Six hours earlier, it is the day before; by hand during a day, it is that day.
  input: ({ at }) => ({ day: toDay(new Date(at.getTime() - 6 * 3_600_000)) }),
  user: shop, // the reports belong to the shop, and see its orders
  catchUp: "12h", // a server that was down at 3:00 starts the report when it is back by 15:00
});
