// This change makes the test fail: a start that does not look at the calls that wait.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { openLives } from "../agents/lives.ts";
import { Random } from "../kills/plan.ts";
import type { ToolLine } from "./plan.ts";

const rounds = bySize(4, 48);

it(
  `a turn whose workflow suspends ends once, over ${2 * rounds} kills -9, by /resume and by the chat`,
  { timeout: 1_800_000 },
  async () => {
    const { lives, log } = openLives<ToolLine>("suspended-tool", join(import.meta.dirname, "workflow-tools-app.ts"));
    const random = new Random(seed);
    const tally = { resumed: 0, open: 0 };
    const read = async (turn: string): Promise<any[]> =>
      (await lives.ask(`/agents/worker/conversations/${turn}`))!.body.data.messages;
    async function until(turn: string, holds: (answer: any) => boolean): Promise<any> {
      const last = performance.now() + patienceMs;
      for (;;) {
        const messages = await read(turn);
        if (messages[1] && holds(messages[1])) return messages[1];
        if (performance.now() > last) throw new Error(`${turn} does not continue: ${JSON.stringify(messages)}`);
        await lives.within("a moment", sleep(10));
      }
    }
    const resume = (executionId: string) =>
      lives.ask(`/workflows/ask/executions/${executionId}/resume`, { resumeData: { approved: true } });
    const sendResult = (turn: string, message: any) => {
      const parts = message.parts.map((part: any) =>
        part.type === "tool-ask" ? { ...part, state: "output-available", output: { approved: true } } : part,
      );
      const body = { messages: [{ ...message, parts }], options: { conversationId: turn } };
      return lives.ask("/agents/worker/chat", body);
    };

    const isEnded = ({ parts }: any): boolean => parts.some(({ output }: any) => output !== undefined);
    const ids = new Map<string, string>();
    await lives.start();
    for (let round = 0; round < rounds; round++) {
      const turn = `ask-${round}`;
      const options = { conversationId: turn };
      await lives.ask("/agents/worker/text", { input: turn, options }, { headers: { prefer: "respond-async" } });
      const waiting = await until(turn, ({ metadata }) => metadata.executions);
      const [{ executionId }] = waiting.metadata.executions;
      ids.set(turn, executionId);
      await lives.kill(); // while it waits
      await lives.start();
      const isChat = (round + Math.floor(round / 4)) % 2 === 1;
      const answering = isChat ? sendResult(turn, waiting) : resume(executionId);
      const own = (what: ToolLine["what"]) => log().filter((line) => line.turn === turn && line.what === what);
      // The moment of the kill: the workflow continues, it has just ended, the model is asked, or any other.
      if (round % 4 === 0) await lives.until("the workflow to continue", () => own("item").length > 0);
      if (round % 4 === 1) await (isChat ? until(turn, isEnded) : answering);
      if (round % 4 === 2) await lives.until("the model to be asked again", () => own("model").length > 1);
      if (round % 4 === 3) await lives.within("a moment", sleep(random.between(0, 60)));
      await lives.kill();
      await answering;
      await lives.start();
      const { body } = (await lives.ask(`/workflows/ask/executions/${executionId}/state`))!;
      if (body.data.status === "suspended") {
        tally.open++;
        await resume(executionId);
      } else tally.resumed++;
    }
    for (const [turn, executionId] of ids) {
      const answer = await until(turn, ({ parts }) => parts.some(({ type }: any) => type === "text"));
      const parts = answer.parts.filter(({ type }: any) => type === "text" || type.startsWith("tool-"));
      expect(parts, turn).toMatchObject([
        { type: "tool-ask", state: "output-available", output: `approved ${executionId}` },
        { type: "text", text: `${turn}: approved ${executionId}` },
      ]);
      expect(answer.metadata.executions, turn).toMatchObject([{ executionId, ended: true }]);
      expect(await read(turn), turn).toHaveLength(2);
      const own = log().filter((line) => line.turn === turn);
      expect(new Set(own.flatMap(({ executionId: id }) => id ?? [])), turn).toEqual(new Set([executionId]));
      // A call that is in flight at a kill is made again, and no other.
      const calls = own.filter(({ what }) => what === "model").map(({ life }) => life);
      expect(new Set(calls).size, `${turn}: one call of the model in each life`).toBe(calls.length);
      expect(calls.length, turn).toBeLessThanOrEqual(3);
    }
    const { body } = (await lives.ask(`/workflows/ask/executions?limit=${rounds + 1}`))!;
    expect(body.data.items.map(({ status }: any) => status)).toEqual([...ids].map(() => "completed"));
    expect(tally.resumed).toBeGreaterThan(0);
    console.log(
      `suspended tools: ${tally.resumed} kills met a resumed execution, ${tally.open} one that was still suspended`,
    );
  },
);
