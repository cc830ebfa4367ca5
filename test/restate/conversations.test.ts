// Each of these changes makes a test of this file fail: a place that gets the turn before it is the first; a sweep that drops
// nothing; a store of a place that is not the first; a store that is not tried again.
import { performance } from "node:perf_hooks";
import { describe, expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { startChatReplicas, type Asked, type ChatReplica } from "./chat-replicas.ts";
import { RestateServer } from "./restate-server.ts";

/** A replica that dies or hangs with a turn keeps its conversation for at most this time. */
const boundMs = 12_000;

/** The turns in the order in which the model was asked. Each was shown all turns before it. */
function toOrder(asked: readonly Asked[]): string[] {
  const rest = new Set(asked);
  const order: string[] = [];
  const lines: string[] = [];
  while (rest.size > 0) {
    const next = [...rest].filter(({ before }) => before.at(-1) === lines.at(-1));
    expect(next, `after ${order.length} turns`).toHaveLength(1);
    const [{ text, before }] = next as [Asked];
    // The window has 40 messages with the text, and begins with one of the user.
    expect(before).toEqual(lines.slice(-38));
    rest.delete(next[0]!);
    order.push(text);
    lines.push(text, `re ${text}`);
  }
  return order;
}

describe("a conversation of two replicas", () => {
  it("puts turns in order that are sent to two replicas at once, 100 times", { timeout: 12 * patienceMs }, async () => {
    const { replicas } = await startChatReplicas();
    for (let pair = 0; pair < 100; pair++) {
      // Each is the first to be sent in every second pair.
      const [one, other] = pair % 2 === 0 ? replicas : replicas.toReversed();
      const replies = await Promise.all([one!.say("c", `${pair} one`), other!.say("c", `${pair} other`)]);
      expect(replies).toEqual(["one", "other"].map((name) => ({ status: 200, text: `re ${pair} ${name}` })));
    }
    for (const { asked } of replicas) expect(asked).toHaveLength(100);
    const order = toOrder(replicas.flatMap(({ asked }) => asked));
    const pairs = order.map((text) => Number(text.split(" ")[0]));
    expect(pairs).toEqual(Array.from({ length: 200 }, (_, index) => Math.floor(index / 2)));
  });

  it(
    `a conversation continues within ${boundMs} ms when the replica with its turn is killed`,
    { timeout: 2 * patienceMs },
    async () => {
      const { replicas, waitForLine } = await startChatReplicas();
      const [victim, survivor] = replicas;
      expect((await victim.say("c", "first")).status).toBe(200);
      // The victim has the turn, and the next place in the line.
      const lost = Promise.allSettled([victim.say("c", "hold 1")]);
      await victim.reached("hold 1");
      const waiting = Promise.allSettled([victim.say("c", "hold 2")]);
      await waitForLine("c", 2);
      const next = survivor.say("c", "next");
      await waitForLine("c", 3);
      const killedAt = performance.now();
      victim.send("SIGKILL");
      await survivor.reached("hold 1");
      const tookMs = performance.now() - killedAt;
      console.log(`the turn continued ${Math.round(tookMs)} ms after SIGKILL`);
      expect(tookMs).toBeLessThan(boundMs);
      survivor.answer("hold 1");
      expect(await next).toEqual({ status: 200, text: "re next" });
      await Promise.all([lost, waiting]);
      // The turn that only waited is gone with its replica.
      const before = ["first", "re first"];
      expect(survivor.asked).toEqual([
        { text: "hold 1", before },
        { text: "next", before: [...before, "hold 1", "re hold 1"] },
      ]);
    },
  );

  it("stores the turn of a step once though a kill makes it run again", { timeout: 2 * patienceMs }, async () => {
    const { replicas, waitForLine } = await startChatReplicas();
    const calls = replicas.map((replica) => Promise.allSettled([replica.execute("c")]));
    const askedIn = (replica: ChatReplica): boolean => replica.asked.length > 0;
    await expect.poll(() => replicas.some(askedIn), { timeout: patienceMs }).toBe(true);
    await waitForLine("c", 2); // the steps of two executions: one has the turn, one waits
    const victim = replicas.find(askedIn)!;
    const survivor = replicas.find((replica) => replica !== victim)!;
    victim.send("SIGKILL");
    // Both steps run on the survivor, one after the other.
    for (const turns of [1, 2]) {
      await expect.poll(() => survivor.asked.length, { timeout: patienceMs }).toBe(turns);
      survivor.answer("hold step");
    }
    const [outcome] = await calls[replicas.indexOf(survivor)]!;
    expect(outcome).toEqual({ status: "fulfilled", value: "re hold step" });
    await Promise.all(calls);
    await waitForLine("c", 0);
    expect((await survivor.say("c", "last")).status).toBe(200);
    const turn = ["hold step", "re hold step"];
    expect(survivor.asked.map(({ before }) => before)).toEqual([[], turn, [...turn, ...turn]]);
  });

  it("refuses what a stopped replica stores after its turn was taken", { timeout: 2 * patienceMs }, async () => {
    const { replicas, takeOut, waitForLine } = await startChatReplicas();
    const [zombie, survivor] = replicas;
    const held = zombie.say("c", "hold");
    await zombie.reached("hold");
    const next = survivor.say("c", "next");
    await waitForLine("c", 2);
    const stoppedAt = performance.now();
    zombie.send("SIGSTOP");
    takeOut(zombie);
    await survivor.reached("hold");
    const tookMs = performance.now() - stoppedAt;
    console.log(`the turn continued ${Math.round(tookMs)} ms after SIGSTOP`);
    expect(tookMs).toBeLessThan(boundMs);
    // The model's answer is there when the process continues.
    zombie.answer("hold");
    zombie.send("SIGCONT");
    expect((await held).status).toBe(503);
    survivor.answer("hold");
    expect(await next).toEqual({ status: 200, text: "re next" });
    expect(survivor.asked.at(-1)).toEqual({ text: "next", before: ["hold", "re hold"] });
  });

  it("aborts the model of a stopped replica that has lost its turn", { timeout: 2 * patienceMs }, async () => {
    const { replicas, takeOut } = await startChatReplicas();
    const [zombie, survivor] = replicas;
    const held = zombie.say("c", "hold");
    await zombie.reached("hold");
    zombie.send("SIGSTOP");
    takeOut(zombie);
    survivor.answer("hold");
    expect((await survivor.say("c", "next")).status).toBe(200);
    zombie.send("SIGCONT");
    expect((await held).status).toBe(503);
    expect(zombie.aborted).toEqual(["hold"]);
  });

  it(
    "keeps every acknowledged turn when Restate is killed and started again",
    { timeout: 3 * patienceMs },
    async () => {
      const restate = await RestateServer.start();
      onTestFinished(() => restate.remove());
      const { replicas, waitForLine } = await startChatReplicas(restate);
      const [first, second] = replicas;
      for (const text of ["1", "2", "3"]) expect((await first.say("c", text)).status).toBe(200);
      const held = first.say("c", "hold");
      await first.reached("hold");
      const waiting = second.say("c", "waiting");
      await waitForLine("c", 2);
      expect((await second.say("other", "beside")).status).toBe(200); // by now, its replica knows of the place as well
      await restate.kill();
      // Both replicas answer: one has a place in the line, one has none.
      const refusedAt = performance.now();
      const refused = await Promise.all([first.say("c", "refused"), second.say("other", "refused")]);
      expect(refused.map(({ status }) => status)).toEqual([503, 503]);
      expect(performance.now() - refusedAt).toBeLessThan(2_000);
      first.answer("hold"); // its answer cannot be stored yet
      await restate.run();
      expect(await Promise.all([held, waiting])).toEqual([
        { status: 200, text: "re hold" },
        { status: 200, text: "re waiting" },
      ]);
      expect((await second.say("c", "last")).status).toBe(200);
      const order = toOrder([...first.asked, ...second.asked].filter(({ text }) => text !== "beside"));
      expect(order).toEqual(["1", "2", "3", "hold", "waiting", "last"]);
    },
  );

  it("answers turns that wait with 503 when Restate stays away", { timeout: 3 * patienceMs }, async () => {
    const restate = await RestateServer.start();
    onTestFinished(() => restate.remove());
    const { replicas, waitForLine } = await startChatReplicas(restate);
    const [first, second] = replicas;
    const held = first.say("c", "hold");
    await first.reached("hold");
    const waiting = replicas.map((replica) => replica.say("c", "waiting"));
    await waitForLine("c", 3);
    await restate.kill();
    first.answer("hold");
    const replies = await Promise.all(waiting);
    expect(replies.map(({ status }) => status)).toEqual([503, 503]);
    expect(second.asked).toEqual([]);
    // A turn that has begun waits, like a step.
    await restate.run();
    expect(await held).toEqual({ status: 200, text: "re hold" });
  });
});
