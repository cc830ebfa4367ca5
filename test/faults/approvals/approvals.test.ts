// This fault was found by the test: a record of an approved tool that is written before the beginning of its turn.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { openLives, type Reply } from "../agents/lives.ts";
import { Random } from "../kills/plan.ts";
import type { PaymentLine } from "./payments-app.ts";

type Outcome = "approved" | "denied" | "superseded";

it.each(["bank", "desk"])(
  "an approval of %s has one outcome over kill -9 at random moments, and its tool runs with the stored input",
  { timeout: 1_800_000 },
  async (agent) => {
    // The desk asks the bank by a tool, whose call then waits.
    const isInner = agent === "desk";
    const { lives, log } = openLives<PaymentLine>("approvals", join(import.meta.dirname, "payments-app.ts"));
    const random = new Random(seed);
    const runsTo = (to: string): PaymentLine[] => log().filter((line) => line.to === to);
    const tally: Record<Outcome, number> = { approved: 0, denied: 0, superseded: 0 };
    let repeated = 0;
    let lost = 0;

    /** Asks until the process answers, over every kill. */
    async function read(path: string): Promise<Reply> {
      for (;;) {
        const reply = await lives.ask(path);
        if (reply) return reply;
      }
    }
    async function restart(): Promise<void> {
      await lives.kill();
      await lives.start();
    }
    /** The part of the tool call, when it waits or has a result. Undefined: nothing was asked. */
    async function partOf(id: string): Promise<any> {
      for (const last = performance.now() + patienceMs; ;) {
        const { status, body } = await read(`/agents/${agent}/conversations/${id}?userId=${id}`);
        if (status === 404) return undefined;
        const parts = body.data.messages.flatMap((message: any) => message.parts);
        const part = parts.find(({ type }: any) => type === (isInner ? "tool-bank" : "tool-pay"));
        // A turn that the last process left is not known as running before it is loaded.
        const isEnded = !body.data.running && part && part.state !== "approval-responded";
        if (isEnded) return part;
        if (performance.now() > last) throw new Error(`${id} does not end: ${JSON.stringify(body)}`);
        await lives.within("a moment", sleep(5));
      }
    }

    await lives.start();
    for (let round = 0; round < bySize(3, 50); round++) {
      const id = `c${round}`;
      const options = { userId: id, conversationId: id };
      const amount = 10 + round;
      const ask = () => lives.ask(`/agents/${agent}/text`, { input: `pay ${amount} to ${id}`, options });

      // The request: some are killed before the call waits.
      const asking = ask();
      if (round % 3 === 1) {
        await lives.within("a moment", sleep(random.between(0, 60)));
        await restart();
      }
      await asking;
      if ((await partOf(id)) === undefined) expect((await ask())!.status).toBe(200);
      const waiting = (await read(`/approvals?userId=${id}`)).body.data.items;
      expect(waiting).toMatchObject([{ conversationId: id, userId: id, input: { amount, to: id } }]);
      const [{ approvalId }] = waiting;

      // Two deciders, and sometimes a new message, and a kill among them.
      const decide = (approved: boolean) => lives.ask(`/approvals/${approvalId}?userId=${id}`, { approved });
      const replies: Promise<{ outcome: Outcome; reply: Reply | undefined }>[] = [];
      const say = (outcome: Outcome, reply: Promise<Reply | undefined>): void =>
        void replies.push(reply.then((known) => ({ outcome, reply: known })));
      const first = random.chance(0.5);
      const continues = (): void =>
        say("superseded", lives.ask(`/agents/${agent}/text`, { input: "never mind", options }));
      if (round % 4 === 1) continues();
      say(first ? "approved" : "denied", decide(first));
      say(first ? "denied" : "approved", decide(!first));
      if (round % 4 === 3) continues();
      await lives.within("a moment", sleep(random.between(0, 80)));
      await restart();
      const answers = await Promise.all(replies);

      // Nothing was durable: it still waits, and is decided now.
      if ((await partOf(id)).state === "approval-requested") {
        for (const { reply } of answers) expect(reply?.status ?? 0).not.toBe(200);
        lost++;
        expect((await decide(true))!.status).toBe(200);
      }
      const part = await partOf(id);
      const { state, output, approval, input } = part;
      expect(input).toEqual(isInner ? { prompt: `pay ${amount} to ${id}` } : { amount, to: id });
      expect(["output-available", "output-denied"], `round ${round}: ${JSON.stringify(part)}`).toContain(state);
      const isDenied = state === "output-denied" || output === "Done: execution-denied";
      const outcome: Outcome = !isDenied ? "approved" : approval?.reason === "superseded" ? "superseded" : "denied";
      tally[outcome]++;
      // Who was answered with 200 has decided. A new message is answered in any case.
      const winners = answers.filter(({ reply, outcome: one }) => reply?.status === 200 && one !== "superseded");
      expect(winners.length).toBeLessThanOrEqual(1);
      for (const winner of winners) expect(winner.outcome).toBe(outcome);
      for (const { reply } of answers) {
        if (reply?.status === 409) expect(reply.body.error).toBe(`Already decided: ${outcome}`);
      }
      expect(await decide(outcome !== "approved")).toMatchObject({
        status: 409,
        body: { error: `Already decided: ${outcome}` },
      });
      if (outcome !== "superseded") {
        const again = await decide(outcome === "approved");
        expect(again).toMatchObject({ status: 200, body: { data: { approved: outcome === "approved" } } });
      }
      const runs = runsTo(id);
      if (outcome === "approved") {
        expect(output).toBe(`${isInner ? "Done: " : ""}paid ${amount}`);
        expect(runs.length).toBeGreaterThan(0);
        expect(new Set(runs.map(({ key }) => key)).size).toBe(1);
        // A life runs it once at most.
        expect(new Set(runs.map(({ life }) => life)).size).toBe(runs.length);
        for (const run of runs) expect(run).toMatchObject({ amount, approvedBy: { id } });
        repeated += runs.length - 1;
      } else expect(runs).toEqual([]);
      if (isInner) expect(state === "output-denied").toBe(outcome === "superseded");
      expect((await read(`/approvals?userId=${id}`)).body.data.items).toEqual([]);
    }
    console.log(
      `outcomes: ${JSON.stringify(tally)}, ${repeated} repeated runs, ${lost} decisions that were not durable`,
    );
  },
);
