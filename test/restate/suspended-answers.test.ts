// Each of these changes makes a test of this file fail: a register that does not tell of an end; a replica that confirms an end
// before the turn that continues the answer has begun; a replica that does not look for missed ends when it starts.
import { describe, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";
import { startTurnReplicas, type TurnReplica } from "./turn-replicas.ts";

const timeout = 4 * patienceMs;

const kill = (replica: TurnReplica): void => void replica.send("SIGKILL");
/** Asks on the first of three replicas, and resumes the execution on the second. */
async function resumed() {
  const { replicas, startApart } = await startTurnReplicas({}, 3);
  const executionId = await replicas[0]!.suspend("c", "pay");
  await replicas[1]!.resume(executionId);
  return { replicas, startApart };
}
/** Waits for a call on some replica, kills that one, and returns the others. */
async function killAt(replicas: readonly TurnReplica[], call: string): Promise<TurnReplica[]> {
  const victim = (): TurnReplica | undefined => replicas.find(({ calls }) => calls.some((one) => one.startsWith(call)));
  await until(() => victim() !== undefined, call);
  kill(victim()!);
  return replicas.filter((replica) => replica !== victim());
}
/** Expects that the answer was continued once, with the result of the execution. */
async function expectAnswer(replicas: readonly TurnReplica[], conversationId: string): Promise<void> {
  let parts: any[] = [];
  await until(
    async () => {
      parts = (await replicas[0]!.conversation(conversationId, "GET")).data?.messages[1]?.parts ?? [];
      return parts.some(({ type }) => type === "text");
    },
    () => JSON.stringify(parts),
  );
  expect(parts.filter(({ type }) => type === "tool-pay")).toMatchObject([{ output: "paid" }]);
  expect(parts.filter(({ type }) => type === "text")).toMatchObject([{ text: "Paid." }]);
  // It waits for every turn before it.
  expect(await replicas[0]!.recall(conversationId)).toEqual(["pay", "Paid.", "recall"]);
  expect(replicas.flatMap(({ calls }) => calls.filter((call) => call === "pay 1"))).toHaveLength(1);
}

describe("an answer that waits for a suspended execution continues once", () => {
  it("an answer continues once if the replica that drives its tool is killed", { timeout }, async () => {
    const { replicas } = await resumed();
    for (const replica of replicas) replica.open("ended");
    const rest = await killAt(replicas, "step");
    for (const replica of rest) replica.open("step");
    await expectAnswer(rest, "c");
  });

  it("an answer continues once if the replica told of the end is killed", { timeout }, async () => {
    const { replicas } = await resumed();
    for (const replica of replicas) replica.open("step");
    const rest = await killAt(replicas, "ended");
    for (const replica of rest) replica.open("ended");
    await expectAnswer(rest, "c");
  });

  it("a replica that starts continues an answer whose execution has ended", { timeout }, async () => {
    const { replicas, startApart } = await resumed();
    for (const replica of replicas) replica.open("step");
    await until(() => replicas.some(({ calls }) => calls.some((call) => call.startsWith("ended"))), "the end");
    const late = await startApart();
    await expectAnswer([late, ...replicas], "c");
  });
});
