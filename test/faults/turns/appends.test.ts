// A 201 that is sent before the commit makes a test of this file fail.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { openLives } from "../agents/lives.ts";
import { Random } from "../kills/plan.ts";
import { createTurnProvider } from "./model.ts";
import type { ToolRun } from "./turn.ts";

it(
  "a kill -9 around a message of a person stores it once or not at all, and a 201 stays",
  { timeout: 1_800_000 },
  async () => {
    const { folder, lives } = openLives<ToolRun>("appends", join(import.meta.dirname, "planner-app.ts"));
    const provider = await createTurnProvider();
    onTestFinished(() => provider.close());
    writeFileSync(join(folder, "provider"), provider.baseURL);
    const random = new Random(seed);
    const path = "/agents/planner/conversations/c";
    const sent: { text: string; id: string | undefined }[] = [];
    async function check(): Promise<void> {
      const { body } = (await lives.ask(`${path}?userId=ada`))!;
      const [question, answer, ...messages] = body.data.messages;
      expect([question.role, answer.role]).toEqual(["user", "assistant"]);
      const ids = messages.map(({ id }: { id: string }) => id);
      expect(new Set(ids).size).toBe(ids.length);
      const texts = messages.map(({ parts }: any) => parts[0].text);
      for (const { text, id } of sent) {
        if (id) expect(ids, text).toContain(id);
        expect(texts.filter((one: string) => one === text).length, text).toBeLessThanOrEqual(1);
      }
    }
    await lives.start();
    const options = { userId: "ada", conversationId: "c" };
    expect((await lives.ask("/agents/planner/text", { input: "recall one", options }))!.status).toBe(200);
    for (let kill = 0; kill < bySize(4, 60); kill++) {
      const text = `message ${kill}`;
      const appending = lives.ask(`${path}/messages?userId=ada`, { text });
      // The moment of the kill: any, or after the answer.
      if (kill % 2 === 0) await lives.within("a moment", sleep(random.between(0, 20)));
      else expect((await appending)?.status).toBe(201);
      await lives.kill();
      sent.push({ text, id: (await appending)?.body.data?.messageId });
      await lives.start();
      await check();
    }
    await lives.kill();
  },
);
