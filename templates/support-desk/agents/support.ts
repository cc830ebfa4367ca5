import { defineAgent, defineTool } from "agentserve";
import * as v from "valibot";
import { demoModel } from "../demo/model.ts";
import { findOrder, payBack, searchHelp } from "../demo/shop.ts";

const lookUpOrder = defineTool({
  description: "Looks up an order of the customer", // tells the model when to call this tool
  inputSchema: v.object({ number: v.string() }),
  // The user comes from the token, not from the model: a customer cannot ask for the orders of others.
  execute: ({ number }, { context }) => findOrder(context.userId, number),
});

const searchHelpPages = defineTool({
  description: "Searches the help pages: returns, delivery, warranty",
  inputSchema: v.object({ question: v.string() }),
  execute: ({ question }) => searchHelp(question),
});

const refund = defineTool({
  description: "Pays money back for an order of the customer",
  inputSchema: v.object({ number: v.string(), amount: v.pipe(v.number(), v.minValue(1)) }),
  // The answer waits for a manager, for days if needed. It survives a restart of the server.
  needsApproval: ({ amount }) => amount > 20,
  // After a crash, the tool may run again with the same key. The shop pays once for each key.
  execute: ({ number, amount }, { context, idempotencyKey }) => payBack(context.userId, number, amount, idempotencyKey),
});

export const support = defineAgent({
  id: "support", // used in URLs: POST /agents/support/chat
  name: "Support",
  description: "Answers questions of customers and refunds orders",
  instructions: "You help customers of a shop. Look things up before you answer. Answer in one or two sentences.",
  // For a real model: npm install @ai-sdk/openai, and set OPENAI_API_KEY in .env
  model: process.env.OPENAI_API_KEY ? "openai/gpt-5" : demoModel,
  tools: { lookUpOrder, searchHelpPages, refund },
});
