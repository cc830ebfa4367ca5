import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";
import { ReplicaGroup, ReplicaProcess } from "./replica-process.ts";
import { type RestateAddresses } from "./serve-replica.ts";

/** A call of a replica's model. */
export interface Asked {
  readonly text: string;
  /** The messages before the text. */
  readonly before: readonly string[];
}

/** A replica of `talker-app.ts`. */
export class ChatReplica extends ReplicaProcess {
  readonly asked: Asked[] = [];
  /** The texts whose call of the model was aborted. */
  readonly aborted: string[] = [];

  protected override onReport({ asked, aborted }: { asked?: Asked; aborted?: string }): void {
    if (asked) this.asked.push(asked);
    if (aborted !== undefined) this.aborted.push(aborted);
  }

  async say(conversationId: string, text: string): Promise<{ status: number; text: string | undefined }> {
    const { status, body } = await this.request("/agents/talker/text", { input: text, options: { conversationId } });
    return { status, text: body.data?.text };
  }
  /** Resolves when the model was asked this. */
  async reached(text: string): Promise<void> {
    await until(() => this.asked.some((one) => one.text === text), `the question ${text}`);
  }
  /** Reads or deletes a conversation. Resolves to the status and the texts of its messages. */
  async conversation(id: string, method: "GET" | "DELETE" = "GET"): Promise<{ status: number; texts: string[] }> {
    const response = await fetch(`${this.address}/agents/talker/conversations/${id}`, { method });
    const { data } = (await response.json()) as { data?: { messages?: { parts: { text?: string }[] }[] } };
    const toText = ({ parts }: { parts: { text?: string }[] }): string => parts.map(({ text = "" }) => text).join("");
    return { status: response.status, texts: (data?.messages ?? []).map(toText) };
  }
  /** Runs the workflow `asks` in a conversation. Resolves to its result. */
  async execute(conversationId: string): Promise<unknown> {
    return (await this.request("/workflows/asks/execute", { input: {}, options: { conversationId } })).body.data
      ?.result;
  }
  /** Lets the model answer a text that begins with `hold`. */
  answer(text: string): void {
    void this.host.order("answer", text);
  }
}

/** Two replicas of `talker-app.ts`, until the test is over. */
export async function startChatReplicas(restate: Partial<RestateAddresses> = {}) {
  const module = join(import.meta.dirname, "talker-app.ts");
  const group = new ReplicaGroup((place) => new ChatReplica(module, place), { ...restate, count: 2 });
  onTestFinished(() => group.close());
  await group.open();
  const count = async (key: string): Promise<number> => {
    const rows = await group.query<{ line: string }>(`select value_utf8 as line from state
      where service_name = '${group.name}.conversation' and service_key = '${key}' and key = 'line'`);
    return rows[0] ? (JSON.parse(rows[0].line) as { places: unknown[] }).places.length : 0;
  };
  return {
    replicas: group.all as [ChatReplica, ChatReplica],
    takeOut: (replica: ChatReplica) => group.takeOut(replica),
    /** Waits until the line of a conversation has so many places. */
    async waitForLine(conversationId: string, places: number): Promise<void> {
      const key = JSON.stringify(["talker", null, conversationId]);
      await expect.poll(() => count(key), { timeout: patienceMs }).toBe(places);
    },
    /** Waits until Restate has no deletion in flight. */
    async waitForDeletions(): Promise<void> {
      const open = `select id from sys_invocation where target_service_name = '${group.name}.conversation'
        and target_handler_name = 'remove' and status <> 'completed'`;
      await expect.poll(() => group.query(open), { timeout: patienceMs }).toEqual([]);
    },
  };
}
