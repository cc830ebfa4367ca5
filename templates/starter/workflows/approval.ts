import { defineWorkflow } from "agentserve";
import * as v from "valibot";

/** An expense: a small one is approved at once, a large one waits for a person, for days if it must. */
export const approval = defineWorkflow({
  id: "approval",
  name: "Expense approval",
  purpose: "Approves small expenses and asks a person about large ones",
  input: v.object({ amount: v.pipe(v.number(), v.minValue(0)), reason: v.string() }),
  resumeSchema: v.object({ approved: v.boolean() }), // what the person answers
})
  .andThen({
    id: "decide",
    purpose: "Waits for a person when the amount is over 100",
    execute: async ({ data, resumeData, suspend }) => {
      if (data.amount <= 100) return { ...data, approved: true };
      // Nothing after suspend() runs. Once somebody has answered, the step runs again from its start, with resumeData.
      if (!resumeData) return suspend(`Approve ${data.amount} for ${data.reason}?`);
      return { ...data, approved: resumeData.approved };
    },
  })
  // Each step is recorded before the next one starts: after a crash or a deploy, this goes on where it was.
  .andTap({ id: "audit", execute: ({ data, logger }) => logger.info("Expense decided", { approved: data.approved }) })
  .andThen({ id: "answer", execute: ({ data }) => ({ approved: data.approved, amount: data.amount }) });
