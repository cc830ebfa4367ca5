import { agentTool, defineTool, type Config } from "agentserve";
import * as v from "valibot";
import type { TestServer } from "../../harness/server.ts";
import { read, toAgent, unique } from "../turns/turn-server.ts";
import { directedModel, toCalls, type DirectedCall } from "./directed-model.ts";

/** A run of a payment. */
export interface Payment {
  readonly agent: string;
  readonly amount: number;
  readonly to: string;
  readonly userId: string | undefined;
  readonly approvedBy: unknown;
  readonly key: string;
}
const payments: Payment[] = [];
/** The payments to one receiver. Each test has its own. */
export const paidTo = (to: string): Payment[] => payments.filter((payment) => payment.to === to);

const pay = (agent: string) =>
  defineTool({
    description: "Pays",
    inputSchema: v.object({ amount: v.number(), to: v.string() }),
    needsApproval: true,
    execute({ amount, to }, { context: { userId, approvedBy }, idempotencyKey: key }) {
      payments.push({ agent, amount, to, userId, approvedBy, key });
      return `${agent} paid ${amount}`;
    },
  });
const note = defineTool({ description: "Notes", inputSchema: v.object({}), execute: () => "a note of the clerk" });

export const models = { clerk: directedModel(), chief: directedModel(), desk: directedModel() };
const clerk = toAgent(models.clerk, "clerk", { tools: { pay: pay("clerk"), note } });
const asksClerk = agentTool(clerk, { description: "Asks the clerk" });
const chief = toAgent(models.chief, "chief", { tools: { clerk: asksClerk, pay: pay("chief") } });
const asksChief = agentTool(chief, { description: "Asks the chief" });
const desk = toAgent(models.desk, "desk", { tools: { clerk: asksClerk, chief: asksChief, pay: pay("desk") } });
/** The desk asks the clerk, who pays, or the chief, who asks the clerk. */
export const deskConfig: Config = { agents: [desk, chief, clerk] };

/** A call of a tool that asks an agent, which makes these calls. */
export const asks = (tool: string, ...calls: readonly DirectedCall[]): DirectedCall => [
  tool,
  { prompt: toCalls(...calls) },
  unique(tool),
];

/** Asks the desk in a new conversation. */
export async function request(server: TestServer, calls: readonly DirectedCall[], init: any = {}) {
  const conversationId = unique("c");
  const response = await ask(server, conversationId, calls, init);
  const approvals: any[] = response.body?.data?.approvals ?? [];
  return { conversationId, response, approvals, id: approvals[0]?.approvalId as string };
}
export const ask = (server: TestServer, conversationId: string, calls: readonly DirectedCall[], init: any = {}) =>
  server.post("/agents/desk/text", { input: toCalls(...calls), options: { conversationId } }, init);

/** The tool parts of the last message. */
export async function partsOf(server: TestServer, conversationId: string, userId?: string): Promise<any[]> {
  const message = (await read(server, "desk", conversationId, userId)).at(-1)!;
  return message.parts.filter((part) => "toolCallId" in part);
}

/** Answers approvals as `useChat` does: with the whole message, whose parts have the responses. */
export async function respond(
  server: TestServer,
  conversationId: string,
  responses: Record<string, boolean>,
  toParts = (parts: any[]): any[] => parts,
) {
  const last = (await read(server, "desk", conversationId)).at(-1)!;
  const parts = last.parts.map((part: any) => {
    const approved = responses[part.approval?.id];
    return approved === undefined
      ? part
      : { ...part, state: "approval-responded", approval: { ...part.approval, approved } };
  });
  return server.post("/agents/desk/chat", { id: conversationId, messages: [{ ...last, parts: toParts(parts) }] });
}
