// This change makes the test fail: an execution with a new id for each run of the turn.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { openLives } from "../agents/lives.ts";
import { Random } from "../kills/plan.ts";
import { items, type ToolLine } from "./plan.ts";

const kills = bySize(3, 50);

it(
  `a turn whose tool is a workflow ends once, and so does the workflow, over ${kills} kills -9`,
  { timeout: 1_800_000 },
  async () => {
    const { lives, log } = openLives<ToolLine>("workflow-tool", join(import.meta.dirname, "workflow-tools-app.ts"));
    const random = new Random(seed);
    const turns = Array.from({ length: kills }, (_, index) => `turn-${index}`);
    async function readEnded(turn: string): Promise<any[]> {
      const last = performance.now() + patienceMs;
      for (;;) {
        const reply = await lives.ask(`/agents/worker/conversations/${turn}`);
        const { messages } = reply!.body.data;
        if (messages.length > 1) return messages;
        if (performance.now() > last) throw new Error(`${turn} does not end: ${JSON.stringify(log().slice(-8))}`);
        await lives.within("a moment", sleep(10));
      }
    }
    for (const [index, turn] of turns.entries()) {
      await lives.start();
      // Three crashes in a row without a record would end a turn.
      if (index > 0) await readEnded(turns[index - 1]!);
      const options = { conversationId: turn };
      const reply = await lives.ask(
        "/agents/worker/text",
        { input: turn, options },
        { headers: { prefer: "respond-async" } },
      );
      expect(reply?.status).toBe(202);
      const item = random.between(0, items - 1);
      await lives.until(`item ${item}`, () => log().some((line) => line.turn === turn && line.item === item));
      await lives.within("a moment", sleep(random.between(0, 30)));
      await lives.kill();
    }
    await lives.start();
    for (const turn of turns) {
      const messages = await readEnded(turn);
      const own = log().filter((line) => line.turn === turn);
      const ids = new Set(own.flatMap(({ executionId }) => executionId ?? []));
      const [id] = ids;
      expect([...ids], `${turn}: one execution`).toEqual([id]);
      const parts = messages[1].parts.filter(({ type }: any) => type === "text" || type.startsWith("tool-"));
      expect(messages).toHaveLength(2);
      expect(parts).toMatchObject([
        { type: "tool-work", state: "output-available", output: `${items} of ${id}` },
        { type: "text", text: `${turn}: ${items} of ${id}` },
      ]);
      const run = own.filter(({ what }) => what === "item").map(({ item }) => item);
      expect(new Set(run).size, `${turn}: every item`).toBe(items);
      // Each kill repeats at most what was in flight: one item, or one call of the model.
      const lifes = new Set(own.map(({ life }) => life)).size;
      expect(run.length - items, `${turn}: items that ran again`).toBeLessThan(lifes);
      expect(own.filter(({ what }) => what === "model").length - 2).toBeLessThan(lifes);
    }
    const { body } = (await lives.ask(`/workflows/work/executions?limit=${kills + 1}`))!;
    expect(body.data.items.map(({ status }: any) => status)).toEqual(turns.map(() => "completed"));
    const found = log().filter(({ what, life, turn }) => what === "item" && life > turns.indexOf(turn) + 1).length;
    console.log(`workflow tools: ${kills} kills, ${found} items ran in a life after the one that began their turn`);
    expect(found).toBeGreaterThan(0);
  },
);
