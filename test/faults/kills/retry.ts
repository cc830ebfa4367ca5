import type { Client } from "./client.ts";
import type { Reply } from "./process.ts";
import { toView, type Witness } from "./witness.ts";

/** Retries an execution that was seen failed. It is mended before the last retry of its plan. */
export async function retry(client: Client, witness: Witness): Promise<void> {
  const { plan, lives } = client;
  const isLast = witness.failures.length >= plan.retries;
  if (isLast) lives.mend!(witness.id);
  const from = witness.retry();
  // Counted before the calls: a read beside them can see the next failure.
  const failed = witness.failures.length;
  const { version } = witness;
  // A rival who comes late must not find the next failure, which would be his.
  const rivals = plan.rivals && isLast ? 2 : 1;
  const calling = { answered: false };
  const calls = Array.from({ length: rivals }, (_, index) => send(client, (plan.n + index) % 2 === 0));
  const answers = Promise.all(calls).finally(() => (calling.answered = true));
  answers.catch(() => {}); // awaited below
  while (plan.reads && !calling.answered && !witness.final) await client.read(witness);
  const replies = await answers;
  for (const reply of replies) if (reply) client.checkStatus(witness, reply, [200, 202, 409, 500]);
  const winners = replies.filter((reply) => reply && !isRefused(witness, reply));
  if (winners.length > 1) witness.fail("was retried twice");
  if (replies.every((reply) => reply && isRefused(witness, reply)))
    witness.fail(`could not be retried: ${JSON.stringify(replies[0]!.body)}`);
  if (winners.length === 0) return checkUnretried(client, witness, { from, failed, isRefused: replies.some(Boolean) });
  const [reply] = winners;
  if (reply!.status === 500 && isLast) witness.fail(`failed when it was mended: ${JSON.stringify(reply!.body)}`);
  const isNews = witness.version === version;
  witness.retryTaken();
  if (reply!.status === 200) client.saw(witness, isNews ? witness.version : version, toView(reply!.body.data));
  if (isLast) await checkTaken(client, witness);
}

function send(client: Client, isAsync: boolean): Promise<Reply | undefined> {
  const headers: Record<string, string> = isAsync ? { prefer: "respond-async" } : {};
  return client.lives.ask(client.path("retry"), { method: "POST", headers });
}

const isRefused = (witness: Witness, { status, body }: Reply): boolean =>
  status === 409 && body.error === `Execution ${witness.id} has not failed`;

/** A retry was acknowledged: one more finds nothing to retry, in this life and in the next. */
async function checkTaken(client: Client, witness: Witness): Promise<void> {
  const reply = await send(client, true);
  if (reply && !isRefused(witness, reply)) witness.fail(`was retried once more: ${JSON.stringify(reply.body)}`);
}

/** The process died before it answered: either it was retried and goes on, or nothing of it has happened. */
async function checkUnretried(
  client: Client,
  witness: Witness,
  { from, failed, isRefused: isOver }: { from: number; failed: number; isRefused: boolean },
): Promise<void> {
  const { lives } = client;
  const found = await client.lookUntilAnswered(witness);
  if (found === "missing") return witness.fail("is gone");
  if (witness.retriesTaken === failed) return;
  if (isOver) witness.fail("was not to be retried, and is failed as before");
  if (lives.log.of(witness.id).some(({ what, at }) => what === "begin" && at > from))
    witness.fail("went on after a retry, and is failed as before");
  const mark = client.lastMark();
  if (mark?.execution === witness.id && mark.point === "retry:after")
    witness.fail(`is not retried after ${mark.point}`);
}
