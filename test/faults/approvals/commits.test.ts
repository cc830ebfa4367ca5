// This change makes the test fail: a decision that is in another commit than the beginning of the turn that continues the answer.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { bySize } from "../../harness/size.ts";
import { openLives } from "../agents/lives.ts";
import type { PaymentLine } from "./payments-app.ts";

it.each(["bank", "desk"])(
  "a kill after each commit of a decision about a tool of %s leaves it undecided, or it comes to its end",
  { timeout: 1_800_000 },
  async (agent) => {
    const { folder, lives, log } = openLives<PaymentLine>("commits", join(import.meta.dirname, "payments-app.ts"));
    const die = join(folder, "die");
    const tally = { undecided: 0, continued: 0, whole: 0 };
    /** The part of the tool call, when it waits or has a result. */
    async function partOf(id: string): Promise<any> {
      for (const last = performance.now() + patienceMs; ;) {
        const { body } = (await lives.ask(`/agents/${agent}/conversations/${id}?userId=${id}`))!;
        const part = body.data.messages.at(-1).parts.find(({ toolCallId }: any) => toolCallId !== undefined);
        if (!body.data.running && part && part.state !== "approval-responded") return part;
        if (performance.now() > last) throw new Error(`${id} does not end: ${JSON.stringify(body)}`);
        await lives.within("a moment", sleep(5));
      }
    }

    await lives.start();
    for (let commit = 1; commit <= bySize(3, 12); commit++) {
      const id = `c${commit}`;
      const options = { userId: id, conversationId: id };
      const asked = await lives.ask(`/agents/${agent}/text`, { input: `pay ${commit} to ${id}`, options });
      const [{ approvalId }] = asked!.body.data.approvals;
      const decide = () => lives.ask(`/approvals/${approvalId}?userId=${id}`, { approved: true });
      writeFileSync(die, String(commit));
      const reply = await decide();
      rmSync(die);
      await lives.kill();
      await lives.start();
      const { state } = await partOf(id);
      if (state === "approval-requested") {
        expect(reply).toBeUndefined();
        expect(log().filter(({ to }) => to === id)).toEqual([]);
        expect((await decide())?.status).toBe(200);
        tally.undecided++;
      } else if (reply) tally.whole++;
      else tally.continued++;
      expect(await partOf(id)).toMatchObject({ state: "output-available" });
      const keys = log().flatMap(({ to, key }) => (to === id ? [key] : []));
      expect(new Set(keys).size).toBe(1);
    }
    console.log(`kills after a commit: ${JSON.stringify(tally)}`);
    expect(tally.continued).toBeGreaterThan(0);
  },
);
