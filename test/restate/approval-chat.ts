import { until } from "../harness/waiting.ts";
import type { ApprovalReplicas } from "./approval-replicas.ts";
import type { Answer } from "./replica-process.ts";

/** A conversation of its own user with the agent of `bank-app.ts`, over any replica. */
export class ApprovalChat {
  readonly id: string;
  /** The input of the tool call. */
  readonly input: { readonly amount: number; readonly to: string };
  readonly question: string;
  readonly #replicas: ApprovalReplicas;
  readonly #pick: () => number;

  /** `pick` returns the index of a replica that lives. */
  constructor(replicas: ApprovalReplicas, id: string, amount: number, pick: () => number) {
    this.id = id;
    this.input = { amount, to: id };
    this.question = `pay ${amount} to ${id}`;
    this.#replicas = replicas;
    this.#pick = pick;
  }

  #ask(index: number, ...request: [path: string, body?: unknown, headers?: Record<string, string>]) {
    return this.#replicas.all[index]!.ask(...request);
  }

  /** Sends a message of the user. It has the same id each time it is sent, so that it is not stored twice. */
  say(text: string, index: number): Promise<Answer | undefined> {
    const messages = [{ id: `${text} ${this.id}`, role: "user", parts: [{ type: "text", text }] }];
    const options = { userId: this.id, conversationId: this.id };
    return this.#ask(index, "/agents/bank/chat", { messages, options });
  }
  decide(approvalId: string, approved: boolean, index: number, isAsync = false): Promise<Answer | undefined> {
    const headers: Record<string, string> = isAsync ? { prefer: "respond-async" } : {};
    return this.#ask(index, `/approvals/${approvalId}?userId=${this.id}`, { approved }, headers);
  }

  /** The approvals that wait, as each replica lists them. */
  async waiting(): Promise<any[][]> {
    const indexes = [...this.#replicas.all.keys()];
    const lists = await Promise.all(indexes.map((index) => this.#ask(index, `/approvals?userId=${this.id}`)));
    return lists.map((list) => list!.body.data.items);
  }

  /** The messages, or none while a turn runs. Undefined: there is no conversation. */
  async messages(): Promise<any[] | undefined> {
    const reply = await this.#ask(this.#pick(), `/agents/bank/conversations/${this.id}?userId=${this.id}`);
    if (reply!.status === 404) return undefined;
    return reply!.body.data.running ? [] : reply!.body.data.messages;
  }

  /** The part of the tool call, when no turn runs. Undefined: there is no conversation. */
  async part(): Promise<any> {
    let messages: any[] | undefined;
    let part: any;
    await until(
      async () => {
        messages = await this.messages();
        part = messages?.flatMap(({ parts }) => parts).find(({ type }) => type === "tool-pay");
        return !messages || (part && part.state !== "approval-responded");
      },
      () => `the end of a turn in ${this.id}: ${JSON.stringify(messages)}`,
    );
    return part;
  }
}
