// Each of these changes makes a test of this file fail: a deletion that is answered before its commit; a turn that is removed in
// another commit than its conversation, so that it brings the conversation back; messages that a crash leaves in the file.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { openLives } from "../agents/lives.ts";
import { Random } from "../kills/plan.ts";
import { createTurnProvider } from "./model.ts";
import type { ToolRun } from "./turn.ts";

const pathOf = (id: string): string => `/agents/planner/conversations/${id}?userId=${id}`;

it(
  "a kill -9 around a DELETE leaves a conversation whole or nothing of it, and a 200 stays",
  { timeout: 1_800_000 },
  async () => {
    const { folder, lives, log: runs } = openLives<ToolRun>("deletes", join(import.meta.dirname, "planner-app.ts"));
    const provider = await createTurnProvider();
    onTestFinished(() => provider.close());
    writeFileSync(join(folder, "provider"), provider.baseURL);
    const file = join(folder, "data.db");
    const random = new Random(seed);
    const read = async (id: string): Promise<{ status: number; texts: string[] }> => {
      const { status, body } = (await lives.ask(pathOf(id)))!;
      const texts = (body.data?.messages ?? []).map(({ parts }: any) =>
        parts.map(({ text = "" }: any) => text).join(""),
      );
      return { status, texts };
    };

    const gone: string[] = [];
    const tally = { answered: 0, whole: 0, notBegun: 0 };
    let last: { id: string; before: string[]; status: number | undefined } | undefined;
    /** Looks at the conversation whose deletion the last kill has met. */
    async function check(): Promise<void> {
      for (const id of gone) expect((await read(id)).status, `${id} is deleted`).toBe(404);
      if (!last) return;
      const { id, before, status } = last;
      const after = await read(id);
      if (status === 200) expect(after.status, `${id} was answered with 200`).toBe(404);
      if (after.status === 200) expect(after.texts.slice(0, 5), `${id} is whole`).toEqual(before);
      else gone.push(id);
      tally[status === 200 ? "answered" : after.status === 200 ? "notBegun" : "whole"]++;
    }
    /** Whether the file has the conversation. */
    const isStored = (id: string): boolean => {
      const db = new DatabaseSync(file, { readOnly: true });
      try {
        return db.prepare("select 1 from conversations where key like ?").get(`%"${id}"]`) !== undefined;
      } finally {
        db.close();
      }
    };
    for (let kill = 0; kill < bySize(4, 60); kill++) {
      await lives.start();
      await check();
      const id = `c${kill}`;
      const options = { userId: id, conversationId: id };
      for (const input of ["recall one", "recall two"])
        expect((await lives.ask("/agents/planner/text", { input, options }))!.status).toBe(200);
      const question = { id: `${id}.question`, role: "user", parts: [{ type: "text", text: id }] };
      const running = lives.ask("/agents/planner/chat", { input: [question], options });
      await lives.until("a tool to run", () => runs().some(({ turn }) => turn === id));
      const { texts: before } = await read(id);
      expect(before.slice(4)).toEqual([id]);
      const removing = lives.ask(pathOf(id), undefined, { method: "DELETE" });
      // The moment of the kill: any, directly after the commit, or after the answer.
      if (kill % 3 === 0) await lives.within("a moment", sleep(random.between(0, 30)));
      if (kill % 3 === 1) await lives.until("the commit", () => !isStored(id));
      if (kill % 3 === 2) expect((await removing)?.status).toBe(200);
      await lives.kill();
      last = { id, before, status: (await removing)?.status };
      await running;
    }
    await lives.start();
    await check();
    // Nothing brings them back: what is left of their turns would have run by now.
    expect(
      (await lives.ask("/agents/planner/text", { input: "recall end", options: { conversationId: "end" } }))!.status,
    ).toBe(200);
    for (const id of gone) expect((await read(id)).status, id).toBe(404);
    await lives.kill();
    const db = new DatabaseSync(file);
    onTestFinished(() => db.close());
    for (const id of gone) {
      expect(db.prepare("select id from messages where id = ?").all(`${id}.question`), id).toEqual([]);
      expect(db.prepare("select id from executions where input like ?").all(`%"${id}.question"%`), id).toEqual([]);
    }
    expect(
      db.prepare("select 1 from messages where conversation not in (select conversation from conversations)").all(),
    ).toEqual([]);
    console.log(
      `deletions: ${tally.answered} answered, ${tally.whole} whole without an answer, ${tally.notBegun} not begun`,
    );
    expect(gone.length).toBeGreaterThan(0);
  },
);
