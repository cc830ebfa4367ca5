// A trigger in the data file counts each record of a model call, in the commit of the record. The usage must always be the same.
// Each of these changes makes it fail: usage that is written in another commit than its record, before it or after it; a call
// that is counted again when a turn is repeated; a record that is not counted because its turn belongs to a step.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it, onTestFinished } from "vitest";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { openLives } from "../agents/lives.ts";
import { Random } from "../kills/plan.ts";
import { createTurnProvider } from "../turns/model.ts";
import { targets } from "../turns/target.ts";
import type { ToolRun } from "../turns/turn.ts";

it("counts each recorded model call once over kill -9 at random moments", { timeout: 1_800_000 }, async () => {
  const { folder, lives, log } = openLives<ToolRun>("usage", join(import.meta.dirname, "../turns/planner-app.ts"));
  const provider = await createTurnProvider();
  onTestFinished(() => provider.close());
  writeFileSync(join(folder, "provider"), provider.baseURL);
  const random = new Random(seed);

  /** Runs statements on the file. The process must have ended. */
  function onFile<T>(work: (db: DatabaseSync) => T): T {
    const db = new DatabaseSync(join(folder, "data.db"));
    try {
      return work(db);
    } finally {
      db.close();
    }
  }
  const countOf = (sql: string): number => onFile((db) => Number(db.prepare(sql).get()!["count"]));
  const recorded = (): number => countOf("select count(*) as count from recorded");
  const counted = (): number => countOf("select coalesce(sum(calls), 0) as count from usage");

  await lives.start();
  await lives.kill();
  onFile((db) =>
    db.exec(`create table recorded(name text not null);
      create trigger on_record after insert on records when new.name glob '*model#*'
        begin insert into recorded values(new.name); end`),
  );

  const crew = { more: true };
  async function play(worker: number): Promise<void> {
    for (let n = 0; crew.more; n++) await random.pick(...targets).play(lives, `turn-${worker}-${n}`);
  }
  const working = lives.watch(Promise.all([1, 2, 3, 4].map(play)));
  const counts: number[] = [];
  await lives.killOften({
    kills: bySize(3, 50),
    // A turn that makes no progress in three lives is ended.
    isAtWork: () => lives.untilMore("tools to run", () => log().length, 3),
    moment: () => random.between(0, 150),
    onKilled(kill) {
      expect(counted(), `kill ${kill}`).toBe(recorded());
      counts.push(counted());
    },
  });
  crew.more = false;
  await lives.within("all turns to end", working);
  const shown = await lives.ask("/agents/planner/usage");
  await lives.kill();
  const items: { calls: number; inputTokens: number }[] = shown!.body.data.items;
  const total = items.reduce((sum, { calls }) => sum + calls, 0);
  expect(total).toBe(recorded());
  expect(total).toBe(counted());
  // Otherwise it would show nothing.
  expect(new Set(counts).size).toBeGreaterThan(counts.length / 2);
});
