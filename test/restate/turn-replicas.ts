import { join } from "node:path";
import { onTestFinished } from "vitest";
import { until } from "../harness/waiting.ts";
import { readFrames } from "../faults/kills/process.ts";
import { ReplicaGroup, ReplicaProcess } from "./replica-process.ts";
import type { RestateAddresses } from "./serve-replica.ts";

/** A replica of `worker-app.ts`. */
export class TurnReplica extends ReplicaProcess {
  /** The calls of the model and of tools, as `work 0` and `note <key>`. */
  readonly calls: string[] = [];
  readonly aborted: string[] = [];

  protected override onReport({ called, aborted }: { called?: string; aborted?: string }): void {
    if (called !== undefined) this.calls.push(called);
    if (aborted !== undefined) this.aborted.push(aborted);
  }

  /** The warnings and errors of its log. */
  get complaints(): string {
    return this.host.stderr;
  }
  /** Resolves when a call has been made. */
  called(call: string): Promise<void> {
    const isMade = (): boolean => this.calls.some((one) => one.startsWith(call));
    return until(isMade, () => `${call}, after ${this.calls.join()}${this.complaints}`);
  }
  /** Lets calls pass a gate. */
  open(...gates: string[]): void {
    for (const gate of gates) void this.host.order("open", gate);
  }

  /** Asks the agent, and expects a status. */
  async #ask(way: string, body: object, expected: number): Promise<any> {
    const headers: Record<string, string> = expected === 202 ? { prefer: "respond-async" } : {};
    const reply = await this.request(`/agents/worker/${way}`, body, headers);
    if (reply.status !== expected) throw new Error(`${reply.status} ${JSON.stringify(reply.body)}`);
    return reply.body.data;
  }
  /** Begins a turn of a conversation, and returns its id of the answer. */
  async begin(conversationId: string, input: string, schema?: object): Promise<string> {
    const body = { input, ...(schema && { schema }), options: { conversationId } };
    return (await this.#ask(schema ? "object" : "text", body, 202)).messageId;
  }
  /** Asks, and returns the messages that the model was shown. */
  async recall(conversationId: string): Promise<string[]> {
    return JSON.parse((await this.#ask("text", { input: "recall", options: { conversationId } }, 200)).text);
  }
  /** Asks a question whose tool is suspended, and returns the id of its execution. */
  async suspend(conversationId: string, input: string): Promise<string> {
    const data = await this.#ask("text", { input, options: { conversationId } }, 200);
    if (data.finishReason !== "suspended") throw new Error(JSON.stringify(data));
    return data.suspensions[0].executionId;
  }
  /** Resumes an execution of `pay`, and does not wait for its end. */
  async resume(executionId: string): Promise<void> {
    const path = `/workflows/pay/executions/${executionId}/resume`;
    const { status, body } = await this.request(path, { resumeData: {} }, { prefer: "respond-async" });
    if (status !== 202) throw new Error(`${status} ${JSON.stringify(body)}`);
  }
  async chat(conversationId: string, question: string): Promise<Stream> {
    const messages = [{ id: `${question}-id`, role: "user", parts: [{ type: "text", text: question }] }];
    return toStream(await this.post("/agents/worker/chat", { messages, options: { conversationId } }));
  }
  async attach(conversationId: string, after?: string): Promise<Stream> {
    const search = after === undefined ? "" : `?after=${after}`;
    return toStream(await this.get(`/agents/worker/chat/${conversationId}/stream${search}`));
  }
  async stop(conversationId: string, messageId?: string): Promise<{ status: number; data: any }> {
    const { status, body } = await this.request(`/agents/worker/conversations/${conversationId}/stop`, { messageId });
    return { status, data: body.data };
  }
  /** Reads or deletes a conversation. */
  async conversation(id: string, method: "GET" | "DELETE"): Promise<{ status: number; data: any }> {
    const reply = await fetch(`${this.address}/agents/worker/conversations/${id}`, { method });
    return { status: reply.status, data: ((await reply.json()) as { data?: unknown }).data };
  }
}

/** Replicas of `worker-app.ts`, until the test is over. */
export async function startTurnReplicas(restate: Partial<RestateAddresses> = {}, count = 2) {
  const module = join(import.meta.dirname, "worker-app.ts");
  const group = new ReplicaGroup((place) => new TurnReplica(module, place), { ...restate, count });
  onTestFinished(() => group.close());
  await group.open();
  return {
    replicas: [...group.all],
    takeOut: (replica: TurnReplica) => group.takeOut(replica),
    /** Starts a replica that Restate does not call. */
    startApart: () => group.add(),
  };
}

/** A stream of a chat, as it is read. */
export interface Stream {
  readonly status: number;
  readonly events: any[];
  /** Resolves at the end of the stream. */
  readonly ended: Promise<void>;
  /** The text of the answer so far. */
  text(): string;
}

function toStream(response: Response): Stream {
  const events: any[] = [];
  const read = async (): Promise<void> => {
    for await (const frame of readFrames(response)) {
      const [, data] = /^data: (.*)$/.exec(frame) ?? [];
      if (data !== undefined) events.push(data === "[DONE]" ? data : JSON.parse(data));
    }
  };
  return {
    status: response.status,
    events,
    ended: read().catch(() => {}), // its process was killed
    text: () => events.map(({ type, delta }) => (type === "text-delta" ? delta : "")).join(""),
  };
}
