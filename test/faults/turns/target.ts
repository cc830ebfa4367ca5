import { DatabaseSync } from "node:sqlite";
import type { AgentLives } from "../agents/lives.ts";
import type { Recalled } from "./model.ts";

/** A way to run a turn that continues after a crash. Each turn has an id, which is its prompt. */
export interface Target {
  readonly name: string;
  /** Begins a turn, and returns its answer when it has ended, over every kill. Undefined: too many crashes have ended it. */
  play(lives: AgentLives, id: string): Promise<string | undefined>;
  /** The condition that the execution of a turn meets, whose only parameter is the id of the turn. */
  readonly condition: string;
}

/** The turn of a step. */
const stepOf = (name: string, workflow: string): Target => ({
  name,
  async play(lives, id) {
    const path = `/workflows/${workflow}`;
    const body = { input: {}, options: { executionId: id } };
    // Asked again after a crash, it may have begun already.
    for (let isBegun = false; !isBegun;) {
      const reply = await lives.ask(`${path}/execute`, body, { headers: { prefer: "respond-async" } });
      if (reply && ![202, 409].includes(reply.status)) throw new Error(`${id} was answered with ${reply.status}`);
      isBegun = reply !== undefined;
    }
    for (;;) {
      const reply = await lives.ask(`${path}/executions/${id}/stream`);
      const last = reply?.events.at(-1);
      if (reply && reply.status !== 200) throw new Error(`${id}: ${reply.status}`);
      if (last?.type !== "workflow-result") continue;
      if (last.status === "completed") return last.result;
      // Several crashes in a row have interrupted it at one place. Its operator resumes it.
      if (last.suspension?.kind !== "system") throw new Error(`${id}: ${JSON.stringify(last)}`);
      await lives.ask(`${path}/executions/${id}/resume`, {});
    }
  },
  condition: "id = ?",
});

/** The turn of a chat with a conversation. */
const chat: Target = {
  name: "a chat",
  async play(lives, id) {
    const options = { userId: id, conversationId: id };
    const message = { id: `${id}.question`, role: "user", parts: [{ type: "text", text: id }] };
    const attach = `/agents/planner/chat/${id}/stream?userId=${id}&after=${message.id}`;
    for (;;) {
      let reply = await lives.ask("/agents/planner/chat", { input: [message], options });
      // A stream is cut at each crash. The next one has the whole answer.
      while (!reply || (reply.status === 200 && reply.events.at(-1) !== "[DONE]")) reply = await lives.ask(attach);
      if (![200, 204].includes(reply.status)) throw new Error(`${id}: ${reply.status} ${JSON.stringify(reply.body)}`);
      if (reply.events.some(({ type }) => type === "error")) throw new Error(`${id}: ${JSON.stringify(reply.events)}`);
      const streamed = reply.events.map((event) => (event.type === "text-delta" ? event.delta : "")).join("");
      const { isAsked, answer } = await recall(lives, id);
      // The answer of an earlier recall may still be replayed.
      if (streamed.startsWith("[") && answer !== streamed)
        throw new Error(`${id}: ${streamed}, but stored is ${answer}`);
      if (isAsked) return answer;
      // The process has died before the turn began.
    }
  },
  condition: "workflow = '@turn/planner' and input like '%\"text\":\"' || ? || '\"%'",
};

/** Asks the model for the turn as it is shown in the next one. */
async function recall(lives: AgentLives, id: string): Promise<Recalled> {
  const options = { userId: id, conversationId: id };
  for (;;) {
    const reply = await lives.ask("/agents/planner/text", { input: `recall ${id}`, options });
    if (reply && reply.status !== 200) throw new Error(`${id}: ${reply.status} ${JSON.stringify(reply.body)}`);
    if (reply?.ended) return JSON.parse(reply.body.data.text);
  }
}

export const targets: readonly Target[] = [
  stepOf("andAgent", "turn"),
  chat,
  stepOf("runtime.ask in a step", "question"),
];

/** The ids of the tool calls of a turn that the file has; undefined if the turn is not in flight. The process must have ended. */
export function recordedTools({ condition }: Target, file: string, id: string): string[] | undefined {
  const db = new DatabaseSync(file);
  try {
    const execution = db.prepare(`select number from executions where ${condition} and status = 'running'`).get(id);
    const sql = "select name from records where number = ? and name like '%tool %'";
    return (
      execution &&
      db
        .prepare(sql)
        .all(execution["number"]!)
        .map(({ name }) => String(name).split("tool ")[1]!)
    );
  } finally {
    db.close();
  }
}
