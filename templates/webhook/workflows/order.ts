import { defineWorkflow } from "agentserve";
import * as v from "valibot";

const Item = v.object({
  name: v.string(),
  price: v.pipe(v.number(), v.minValue(0)),
  quantity: v.pipe(v.number(), v.integer(), v.minValue(1)),
});
export const Order = v.object({
  number: v.string(),
  requestedBy: v.string(), // the id of the user, as in a token
  items: v.pipe(v.array(Item), v.minLength(1)),
});

/** Places an order: a small one immediately, a large one after a manager has approved it, even days later. */
export const order = defineWorkflow({
  id: "order",
  name: "Order",
  purpose: "Places small orders and asks a manager about large ones",
  input: Order,
  resumeSchema: v.object({ approved: v.boolean() }), // the answer of the manager
})
  .andThen({
    id: "check",
    execute: ({ data: { number, requestedBy, items } }) => {
      const amount = items.reduce((sum, { price, quantity }) => sum + price * quantity, 0);
      return { number, requestedBy, amount };
    },
  })
  .andThen({
    id: "approve",
    purpose: "Waits for a manager if the amount is over 500",
    // `authorize` in agents.config.ts decides who may resume it.
    execute: ({ data, resumeData, resumedBy, suspend }) => {
      if (data.amount <= 500) return { ...data, approved: true, approvedBy: null };
      // suspend() ends the step. After the answer, the step runs again from the start, with resumeData.
      if (!resumeData) return suspend(`Approve order ${data.number} of ${data.requestedBy} for ${data.amount}?`);
      return { ...data, approved: resumeData.approved, approvedBy: resumedBy?.userId ?? null };
    },
  })
  .andThen({
    id: "place",
    // Here you would call the supplier. The same key in every attempt lets it recognize a repeated call.
    retry: { attempts: 5, delay: 1_000, backoff: 2 },
    execute: ({ data, idempotencyKey }) => ({ ...data, placedAs: data.approved ? idempotencyKey : null }),
  });
