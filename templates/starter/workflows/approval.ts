import { defineWorkflow } from "agentserve";
import * as v from "valibot";

/** Approves an expense: a small one immediately, a large one after a person has approved it, even days later. */
export const approval = defineWorkflow({
  id: "approval",
  name: "Expense approval",
  purpose: "Approves small expenses and asks a person about large ones",
  input: v.object({ amount: v.pipe(v.number(), v.minValue(0)), reason: v.string() }),
  resumeSchema: v.object({ approved: v.boolean() }), // the answer of the person
})
  .andThen({
    id: "decide",
    purpose: "Waits for a person if the amount is over 100",
    execute: async ({ data, resumeData, suspend }) => {
      if (data.amount <= 100) return { ...data, approved: true };
      // suspend() ends the step. After the answer, the step runs again from the start, with resumeData.
      if (!resumeData) return suspend(`Approve ${data.amount} for ${data.reason}?`);
      return { ...data, approved: resumeData.approved };
    },
  })
  // Each result is stored before the next step starts: after a crash or a deploy, the workflow continues there.
  .andTap({ id: "audit", execute: ({ data, logger }) => logger.info("Expense decided", { approved: data.approved }) })
  .andThen({ id: "answer", execute: ({ data }) => ({ approved: data.approved, amount: data.amount }) });
