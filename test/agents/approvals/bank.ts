import { defineAgent, defineTool, type Config, type DefineAgentOptions } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import { tool } from "ai";
import * as v from "valibot";
import { z } from "zod";
import type { TestServer } from "../../harness/server.ts";
import { unique } from "../turns/turn-server.ts";

/** A run of a tool. */
export interface Payment {
  readonly input: { amount: number; to: string };
  readonly userId: string | undefined;
  readonly approvedBy: unknown;
  readonly key: string;
}
export const payments: Payment[] = [];
/** The payments to one receiver. Each test has its own. */
export const paidTo = (to: string): Payment[] => payments.filter(({ input }) => input.to === to);

const pay = defineTool({
  description: "Pays",
  inputSchema: v.object({ amount: v.number(), to: v.string() }),
  needsApproval: ({ amount }) => amount > 1,
  execute: (input, { context, idempotencyKey: key }) => {
    payments.push({ input, userId: context.userId, approvedBy: context.approvedBy, key });
    return `paid ${input.amount}`;
  },
});
/** The same, as a tool of the AI SDK. */
const transfer = tool({
  description: "Transfers",
  inputSchema: z.object({ amount: z.number(), to: z.string() }),
  needsApproval: true,
  execute: (input, options) => {
    const { context } = options as any;
    payments.push({ input, userId: context.userId, approvedBy: context.approvedBy, key: context.idempotencyKey });
    return "transferred";
  },
});
const locate = tool({ description: "Finds the client", inputSchema: z.object({}) });

/** The prompts of the model, by the receiver that the question names. */
export const prompts: string[] = [];

/**
 * A model that pays as the question says: `pay 5 7 to x` is two calls with these amounts, `transfer 5 to x` a call of the other
 * tool. It answers with `Done: ` and the sorted results of the tools since the last question.
 */
const teller: ScriptedStep = ({ prompt }) => {
  prompts.push(JSON.stringify(prompt));
  const since = prompt.findLastIndex(({ role }) => role === "user");
  const results = prompt.slice(since + 1).flatMap(({ role, content }) => (role === "tool" ? content : [])) as any[];
  const ends = results.filter(({ type }) => type === "tool-result").map(({ output }) => output.value ?? output.type);
  const question = (prompt[since]!.content as any[]).map(({ text }) => text).join("");
  const [, toolName = "", amounts = "", to = ""] = /^(pay|transfer) ([\d ]+) to (\S+)/.exec(question) ?? [];
  if (toolName === "" || ends.length > 0) return `Done: ${ends.toSorted().join(", ")}`;
  const calls = amounts.split(" ").map((amount, index) => ({
    toolName,
    input: { amount: Number(amount), to },
    toolCallId: `call-${index}`,
  }));
  const located = question.includes("locate") ? [{ toolName: "locate", input: {}, toolCallId: "where" }] : [];
  return { toolCalls: [...calls, ...located] };
};

export const createBank = (options: Partial<DefineAgentOptions> = {}) =>
  defineAgent({
    id: "bank",
    instructions: "Pay.",
    model: scriptedModel(Array.from({ length: 10_000 }, () => teller)),
    tools: { pay, transfer, locate },
    maxRetries: 0,
    ...options,
  });

export const bankConfig = (more: Config = {}, options: Partial<DefineAgentOptions> = {}): Config => ({
  agents: [createBank(options)],
  ...more,
});

/** Asks the bank in a conversation. */
export const ask = (server: TestServer, conversationId: string, input: unknown, { options = {}, ...init }: any = {}) =>
  server.post("/agents/bank/text", { input, options: { conversationId, ...options } }, init);

/** Asks for a payment that waits, to a new receiver, in a new conversation. */
export async function request(server: TestServer, amounts = "5", more: any = {}) {
  const to = unique("to");
  const conversationId = unique("c");
  const { toolName = "pay", ...init } = more;
  const response = await ask(server, conversationId, `${toolName} ${amounts} to ${to}`, init);
  const approvals: any[] = response.body?.data?.approvals ?? [];
  return { to, conversationId, response, approvals, id: approvals[0]?.approvalId as string };
}

export const decide = (server: TestServer, id: string, body: object = { approved: true }, init: any = {}, query = "") =>
  server.post(`/approvals/${id}${query}`, body, init);

export const list = async (server: TestServer, query = "", init: any = {}): Promise<any[]> =>
  (await server.get(`/approvals${query}`, init)).body.data.items;
