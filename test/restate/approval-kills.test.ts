// Each of these changes makes the test fail: a decision that does not look for an earlier outcome; an outcome that is not stored;
// a decision that is stored without the beginning of its turn; a key that differs between two runs of a tool.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { Random } from "../faults/kills/plan.ts";
import { seed } from "../harness/seed.ts";
import { bySize } from "../harness/size.ts";
import { eventually, until } from "../harness/waiting.ts";
import { ApprovalChat } from "./approval-chat.ts";
import { ApprovalReplicas } from "./approval-replicas.ts";
import type { Answer as Reply } from "./replica-process.ts";

const count = 3;

type Outcome = "approved" | "denied" | "superseded";
/** A reply to a decision, or to a new message of the user. Undefined: its replica was killed. */
interface Answer {
  readonly wanted: Outcome;
  readonly reply: Reply | undefined;
}
const isGiven = ({ reply }: Answer): boolean => reply?.status === 200 || reply?.status === 202;

it(
  "an approval has one outcome while replicas are killed, and its tool runs with the stored input",
  { timeout: 3_600_000 },
  async () => {
    const random = new Random(seed);
    const replicas = await ApprovalReplicas.start(count);
    const pick = (): number => random.between(0, count - 1);
    const tally: Record<Outcome, number> = { approved: 0, denied: 0, superseded: 0 };
    const runsOf = new Map<string, number>();
    const keys = new Set<string>();
    let repeated = 0;

    for (let round = 0; round < bySize(5, 50); round++) {
      const id = `c${round}`;
      const chat = new ApprovalChat(replicas, id, 10 + round, pick);
      const { input, question } = chat;
      let kills = 0;
      const restart = (index: number): Promise<unknown> => {
        kills++;
        return replicas.replace(index);
      };

      // The request: some replicas are killed before the call waits.
      const asker = pick();
      const asking = chat.say(question, asker);
      if (round % 3 === 1) {
        await sleep(random.between(0, 150));
        await restart(asker);
      }
      await asking;
      if ((await chat.part()) === undefined) expect((await chat.say(question, pick()))?.status).toBe(200);
      const [list, ...others] = await chat.waiting();
      expect(list).toMatchObject([{ conversationId: id, userId: id, toolName: "pay", input }]);
      for (const other of others) expect(other).toEqual(list);
      const [{ approvalId }] = list as [{ approvalId: string }];

      // Two deciders on different replicas, sometimes a new message, and a kill among them.
      const moment = round % 2 === 0 ? "tool" : random.pick("time", "reply");
      const release = moment === "tool" ? replicas.hold(id) : undefined;
      const replies: Promise<Answer>[] = [];
      let replied = 0;
      const expectReply = (wanted: Outcome, asked: Promise<Reply | undefined>): void => {
        replies.push(asked.then((reply) => ({ wanted, reply })).finally(() => replied++));
        replies.at(-1)!.catch(() => {}); // awaited below
      };
      const decide = (approved: boolean, index: number): void =>
        expectReply(approved ? "approved" : "denied", chat.decide(approvalId, approved, index, random.chance(0.3)));
      const sendMessage = (): void => expectReply("superseded", chat.say("never mind", pick()));
      const approved = moment === "tool" || random.chance(0.5);
      const decider = pick();
      if (round % 4 === 1) sendMessage();
      decide(approved, decider);
      // The others wait in line then.
      if (moment === "tool") await until(() => replicas.payments(id).length > 0, "a run of the tool");
      decide(!approved, (decider + random.between(1, count - 1)) % count);
      if (round % 4 !== 1 && round % 3 === 2) sendMessage();
      if (moment === "reply") await until(() => replied > 0, "a reply");
      else await sleep(random.between(0, 200));
      const pid = moment === "tool" ? replicas.payments(id)[0]!.pid : undefined;
      const victim = pid === undefined ? pick() : replicas.all.findIndex(({ host }) => host.child.pid === pid);
      const restarting = restart(victim);
      release?.();
      await restarting;
      const answers = await Promise.all(replies);

      // At least one decider was not killed, and every turn that has begun ends.
      const part = await chat.part();
      const { state, output, approval } = part;
      const what = `round ${round}: ${JSON.stringify({ moment, kills, answers, part })}`;
      expect(part.input, what).toEqual(input);
      expect(["output-available", "output-denied"], what).toContain(state);
      const outcome: Outcome =
        state === "output-available" ? "approved" : approval.reason === "superseded" ? "superseded" : "denied";
      tally[outcome]++;

      // An answer that was given holds, and only killed replicas have given none.
      const refusal = { status: 409, body: { error: `Already decided: ${outcome}` } };
      const same = { status: 200, body: { data: { approvalId, approved: outcome === "approved" } } };
      const message = answers.find(({ wanted }) => wanted === "superseded");
      for (const answer of answers) {
        if (answer === message) expect(answer.reply?.status ?? 200, what).toBe(200);
        else if (isGiven(answer)) expect(answer.wanted, what).toBe(outcome);
        else if (answer.reply) expect(answer.reply, what).toMatchObject(refusal);
      }
      expect(answers.filter((answer) => answer !== message && isGiven(answer)).length, what).toBeLessThanOrEqual(1);
      for (const index of replicas.all.keys()) {
        expect(await chat.decide(approvalId, outcome !== "approved", index), what).toMatchObject(refusal);
        // A client repeats its decision if the answer was lost with the replica.
        const again = await chat.decide(approvalId, outcome === "approved", index);
        expect(again, what).toMatchObject(outcome === "superseded" ? refusal : same);
      }

      // The tool ran only if approved, once more for each crash at most.
      const runs = replicas.payments(id);
      runsOf.set(id, runs.length);
      if (outcome === "approved") {
        const { key } = runs[0]!;
        expect(output, what).toBe(`paid ${input.amount}`);
        expect(runs.length, what).toBeGreaterThan(moment === "tool" ? 1 : 0);
        expect(runs.length, what).toBeLessThanOrEqual(1 + kills);
        for (const run of runs) expect(run, what).toMatchObject({ input, key, approvedBy: { id } });
        expect(keys, what).not.toContain(key);
        keys.add(key);
        repeated += runs.length - 1;
      } else expect(runs, what).toEqual([]);

      // Each message of the user has one whole answer, and nothing waits.
      await eventually(async () => {
        const messages = (await chat.messages())!;
        const texts = messages.map(({ role, parts }) => [role, ...parts.flatMap(({ text }: any) => text ?? [])]);
        const isContinued = message && (message.reply || outcome === "superseded" || messages.length > 2);
        const first = [
          ["user", question],
          ["assistant", ...(outcome === "superseded" ? [] : ["Done."])],
        ];
        const rest = [
          ["user", "never mind"],
          ["assistant", "Done."],
        ];
        expect(texts, what).toEqual(isContinued ? [...first, ...rest] : first);
        expect(messages[1].parts.filter(({ type }: any) => type === "tool-pay")).toEqual([part]);
      });
      expect(await chat.waiting(), what).toEqual([[], [], []]);
    }
    // No run came after the end of its turn.
    for (const [id, runs] of runsOf) expect(replicas.payments(id), id).toHaveLength(runs);
    console.log(`outcomes: ${JSON.stringify(tally)}, ${repeated} repeated runs`);
  },
);
