import { DatabaseSync } from "node:sqlite";
import type { Lives } from "../agents/lives.ts";

/** A way to run a turn that continues after a crash. Each turn has an id, which is its prompt. */
export interface Target {
  readonly name: string;
  /** Begins a turn, and returns its answer when it has ended, over every kill. */
  play(lives: Lives, id: string): Promise<string>;
  /** The ids of the tool calls of a turn in flight that the file has. The process must have ended. */
  recordedTools(file: string, id: string): string[];
}

/** The turn of an `andAgent`. */
const step: Target = {
  name: "andAgent",
  async play(lives, id) {
    const path = "/workflows/turn";
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
  recordedTools(file, id) {
    const sql = "select name from records join executions using (number) where id = ? and name like 'tool %'";
    const db = new DatabaseSync(file);
    try {
      return db
        .prepare(sql)
        .all(id)
        .map(({ name }) => String(name).slice("tool ".length));
    } finally {
      db.close();
    }
  },
};

export const targets: readonly Target[] = [step];
