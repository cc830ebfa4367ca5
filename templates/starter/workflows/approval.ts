import { defineWorkflow } from "agentserve";
import * as v from "valibot";

/** An expense: small ones are approved at once, large ones wait for a person. */
export const approval = defineWorkflow({
  id: "approval",
  name: "Expense approval",
  purpose: "Approves small expenses and asks a person about large ones",
  input: v.object({ amount: v.pipe(v.number(), v.minValue(0)), reason: v.string() }),
  resumeSchema: v.object({ approved: v.boolean() }),
})
  .andThen({
    id: "decide",
    purpose: "Waits for a person when the amount is over 100",
    execute: async ({ data, resumeData, suspend }) => {
      if (data.amount <= 100) return { ...data, approved: true };
      if (!resumeData) return suspend(`Approve ${data.amount} for ${data.reason}?`);
      return { ...data, approved: resumeData.approved };
    },
  })
  .andTap({ id: "audit", execute: ({ data, logger }) => logger.info("Expense decided", { approved: data.approved }) })
  .andThen({ id: "answer", execute: ({ data }) => ({ approved: data.approved, amount: data.amount }) });
