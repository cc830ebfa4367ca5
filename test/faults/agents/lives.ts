import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { onTestFinished } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { Lives } from "../../harness/lives.ts";
import { readFrames } from "../kills/process.ts";
import { readLog, type Line } from "./log.ts";
import { toPath, toRecordName, type Point } from "./points.ts";
import { toLine } from "./turns.ts";

export interface Reply {
  readonly status: number;
  readonly body: any;
  /** The events of a stream that came whole. */
  readonly events: any[];
  /** Whether it came to its end. */
  readonly ended: boolean;
}

/** A server with agents that is killed and started again on the same file. */
export class AgentLives extends Lives {
  protected override explain(): string {
    const lines = this.log().slice(-8);
    return lines.map((line) => JSON.stringify(line).slice(0, 300)).join("\n");
  }

  /** Lets the process end itself at this point. */
  arm(point: Point): void {
    void this.order("arm", point);
  }
  open(gate: string): void {
    void this.order("open", gate);
  }

  /** Resolves when the process has ended itself at this point. */
  async died({ point, key }: Point): Promise<void> {
    await this.hasEnded(`${point} of ${key}: to be reached`);
    const mark = this.log().findLast(({ what }) => what === "kill");
    if (mark?.what !== "kill" || mark.life !== this.life || mark.point !== point || mark.key !== key)
      throw new Error(`life ${this.life} did not end at ${point} of ${key}`);
  }

  /** An answer; undefined when the process died before anything of it was there. */
  async ask(
    path: string,
    json?: unknown,
    { take, headers = {}, method }: { take?: (event: any) => void; headers?: object; method?: "DELETE" } = {},
  ): Promise<Reply | undefined> {
    const init: RequestInit = { headers: { "content-type": "application/json", ...headers } };
    if (json !== undefined) Object.assign(init, { method: "POST", body: JSON.stringify(json) });
    if (method) Object.assign(init, { method });
    const sent = await this.fetch(path, init);
    if (!sent) return undefined;
    const { response, life } = sent;
    const reply = { status: response.status, body: undefined, events: [] as any[], ended: false };
    try {
      if (response.headers.get("content-type") !== "text/event-stream") {
        const text = await response.text();
        return { ...reply, body: text === "" ? undefined : JSON.parse(text), ended: true };
      }
      for await (const frame of readFrames(response)) {
        const [, data] = /^(?:id: \d+(?:\.end)?\n)?data: (.*)$/.exec(frame) ?? [];
        const event = data === undefined || data === "[DONE]" ? data : JSON.parse(data);
        reply.events.push(event);
        take?.(event);
      }
      return { ...reply, ended: true };
    } catch (error) {
      await this.sawDeath(life, error);
      return reply;
    }
  }

  log(): Line[] {
    return readLog(join(this.folder, "log"));
  }

  /** What the file holds of a conversation. The process must have ended. */
  stored(...key: [agent: string, user: string, conversation: string]): string[] {
    const sql = "select body from messages join conversations using (conversation) where key = ? order by n";
    return this.#select(sql, JSON.stringify(key)).flatMap(({ body }) => JSON.parse(body!).map(toLine));
  }

  /** The steps whose value is recorded. The process must have ended. */
  recorded(id: string): string[] {
    const sql = "select key from journal join executions using (number) where id = ? and kind = 'value'";
    return this.#select(sql, id).map(({ key }) => toPath(key!));
  }

  /** The calls of steps in flight that are recorded: the path of the step and the name. The process must have ended. */
  recordedCalls(id: string): string[] {
    const sql = "select key, name from records join executions using (number) where id = ?";
    return this.#select(sql, id).map(({ key, name }) => `${toPath(key!)} ${toRecordName(name!)}`);
  }

  #select(sql: string, value: string): Record<string, string>[] {
    const db = new DatabaseSync(join(this.folder, "data.db"));
    try {
      return db.prepare(sql).all(value) as Record<string, string>[]; // all that is asked for is text
    } finally {
      db.close();
    }
  }
}

/** The lives of a module on a new folder, for as long as the test runs. `log` returns the lines that its server has written. */
export function openLives<Own>(name: string, module: string) {
  const folder = createFolder(name);
  const lives = new AgentLives(folder, module);
  onTestFinished(() => lives.close());
  return { folder, lives, log: (): Own[] => readLog(join(folder, "log")) as unknown as Own[] };
}
