// Each of these changes makes a test of this file fail: a stop that is not kept with the place; a shutdown that ends a turn; a
// record that is not written again after an outage; a deletion that the runner of a turn is not told of.
import { performance } from "node:perf_hooks";
import { describe, expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { until, within } from "../harness/waiting.ts";
import { RestateServer } from "./restate-server.ts";
import { startTurnReplicas, type Stream, type TurnReplica } from "./turn-replicas.ts";

const timeout = 4 * patienceMs;

/** Attaches until a stream has come to its end: one is cut when the turn is continued by another replica. */
async function readAnswer(replica: TurnReplica, conversationId: string, after: string): Promise<Stream> {
  let stream: Stream | undefined;
  await until(
    async () => {
      stream = await replica.attach(conversationId, after);
      await within(stream.ended, "the end of a stream");
      return stream.events.at(-1) === "[DONE]";
    },
    () => `the answer: ${stream?.status} ${JSON.stringify(stream?.events)}`,
  );
  return stream!;
}
const kill = (replica: TurnReplica): void => void replica.send("SIGKILL");
const toolsOf = ({ calls }: TurnReplica, tool: string): string[] => calls.filter((call) => call.startsWith(tool));
const start = async () => {
  const { replicas, takeOut } = await startTurnReplicas();
  const [victim, survivor] = replicas;
  return { victim: victim!, survivor: survivor!, takeOut };
};

describe("a turn whose replica is killed", () => {
  it("a turn whose replica is killed continues elsewhere over its records", { timeout }, async () => {
    const { victim, survivor } = await start();
    victim.open("slow");
    const first = await victim.chat("c", "work");
    await until(
      () => first.text() === "One ",
      () => first.text(),
    );
    const other = await survivor.attach("c");
    await until(
      () => other.text() === "One ",
      () => `${other.status} ${other.text()}`,
    );
    expect(other.events.slice(0, first.events.length)).toEqual(first.events);
    const killedAt = performance.now();
    kill(victim);
    await survivor.called("work 2");
    console.log(`continued ${Math.round(performance.now() - killedAt)} ms after SIGKILL`);
    await within(other.ended, "the cut");
    expect(other.events.at(-1)).not.toBe("[DONE]");
    const again = await survivor.attach("c");
    await until(
      () => again.text() === "One ",
      () => `${again.status} ${again.text()}`,
    );
    survivor.open("two");
    await within(again.ended, "the end");
    expect(again.text()).toBe("One two.");
    expect(again.events.at(-1)).toBe("[DONE]");
    expect(again.events[0].messageId).toBe(first.events[0].messageId);
    // Two model calls and two tools were recorded.
    expect(survivor.calls).toEqual(["work 2"]);
    expect(await survivor.recall("c")).toEqual(["work", "One two.", "recall"]);
    expect((await survivor.attach("c", "other")).status).toBe(200);
    expect(survivor.complaints).toBe("");
  });

  it("runs a tool in flight once more with the same key when its replica is killed", { timeout }, async () => {
    const { victim, survivor } = await start();
    survivor.open("two");
    const id = await victim.begin("c", `work ${"x".repeat(2_000)}`); // a value of over 1 KB is a reference
    await victim.called("slow");
    kill(victim);
    await survivor.called("slow");
    expect(toolsOf(survivor, "slow")).toEqual(toolsOf(victim, "slow"));
    survivor.open("slow");
    const stream = await readAnswer(survivor, "c", "question");
    expect([stream.events[0].messageId, stream.text()]).toEqual([id, "One two."]);
    expect(survivor.calls.map((call) => call.split("/")[0]!.split(" ")[0])).toEqual(["slow", "work"]);
  });

  it("continues a turn whose answer is an object when its replica is killed", { timeout }, async () => {
    const { victim, survivor } = await start();
    const schema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
    await victim.begin("c", "object", schema);
    await victim.called("object 0");
    kill(victim);
    survivor.open("object");
    await survivor.called("object 0");
    expect(await survivor.recall("c")).toEqual(["object", '{"n":1}', "recall"]);
  });

  it("keeps a turn stopped that was stopped while no replica ran it", { timeout }, async () => {
    const { victim, survivor } = await start();
    victim.open("slow");
    const id = await victim.begin("c", "work");
    await victim.called("work 2");
    kill(victim);
    expect(await survivor.stop("c")).toEqual({ status: 200, data: { stopped: true, messageId: id } });
    // It waits for the turn before. Its two recorded calls are stored, and the third one is not asked again.
    expect(await survivor.recall("c")).toEqual(["work", "recall"]);
    expect(survivor.calls).toEqual(["recall 0"]);
  });

  it("ends a turn after three crashes without a new record", { timeout: 2 * timeout }, async () => {
    const { replicas } = await startTurnReplicas({}, 4);
    const [first, ...others] = replicas;
    await first!.begin("c", "work");
    await first!.called("slow");
    kill(first!);
    for (let crashes = 1; crashes < 3; crashes++) {
      const running = (): TurnReplica | undefined =>
        others.find(({ isKilled, calls }) => !isKilled && calls.length > 0);
      await until(() => running() !== undefined, "the next run");
      kill(running()!);
    }
    const last = others.find(({ isKilled }) => !isKilled)!;
    expect(await last.recall("c")).toEqual(["work", "recall"]);
    expect(last.calls).toEqual(["recall 0"]);
  });
});

describe("a turn that another replica runs", () => {
  async function startTurn() {
    const { victim: runner, survivor: other } = await start();
    runner.open("slow");
    const stream = await runner.chat("c", "work");
    await until(
      () => stream.text() === "One ",
      () => stream.text(),
    );
    return { runner, other, stream };
  }

  it("stops a turn by a request to any replica", { timeout }, async () => {
    const { runner, other, stream } = await startTurn();
    expect(await other.stop("c", "another")).toMatchObject({ status: 409 });
    const { messageId } = stream.events[0];
    expect(await other.stop("c", "work-id")).toEqual({ status: 200, data: { stopped: true, messageId } });
    await within(stream.ended, "the end");
    expect(stream.events.at(-2)).toMatchObject({ type: "abort" });
    expect(runner.aborted).toContain("work 2");
    expect(await other.stop("c")).toEqual({ status: 200, data: { stopped: false, messageId: null } });
    expect(await other.recall("c")).toEqual(["work", "One ", "recall"]);
  });

  it("shows a turn as running on any replica, and ends it with its conversation", { timeout }, async () => {
    const { runner, other, stream } = await startTurn();
    const { messageId } = stream.events[0];
    const { data } = await other.conversation("c", "GET");
    expect([data.running, data.messages.map(({ role }: { role: string }) => role)]).toEqual([{ messageId }, ["user"]]);
    const reader = await other.attach("c");
    expect(await other.conversation("c", "DELETE")).toEqual({ status: 200, data: { deleted: true } });
    await within(Promise.all([stream.ended, reader.ended]), "the end");
    expect(stream.events.at(-2)).toEqual({ type: "error", errorText: "The conversation was deleted" });
    expect(runner.aborted).toContain("work 2");
    expect((await runner.conversation("c", "GET")).status).toBe(404);
    expect(await other.recall("c")).toEqual(["recall"]);
    expect([runner.complaints, other.complaints]).toEqual(["", ""]);
  });

  it("a deletion ends a turn also if Restate runs it after a kill", { timeout }, async () => {
    const { victim, survivor } = await start();
    victim.open("slow");
    await victim.begin("c", "work");
    await victim.called("work 2");
    kill(victim);
    await survivor.called("work 2");
    expect((await survivor.conversation("c", "DELETE")).status).toBe(200);
    await until(() => survivor.aborted.includes("work 2"), "the end of the run");
    expect(await survivor.recall("c")).toEqual(["recall"]);
    expect(survivor.calls).toEqual(["work 2", "recall 0"]);
  });

  it("continues a turn at once when its replica is shut down", { timeout }, async () => {
    const { victim, survivor } = await start();
    victim.open("slow");
    const id = await victim.begin("c", "work");
    await victim.called("work 2");
    const closedAt = performance.now();
    victim.send("SIGTERM");
    survivor.open("two");
    await survivor.called("work 2");
    console.log(`continued ${Math.round(performance.now() - closedAt)} ms after SIGTERM`);
    const stream = await readAnswer(survivor, "c", "question");
    expect([stream.events[0].messageId, stream.text()]).toEqual([id, "One two."]);
    expect(survivor.calls).toEqual(["work 2"]);
  });

  it("keeps a turn undisturbed by a replica that was stopped and continues", { timeout }, async () => {
    const { victim: zombie, survivor, takeOut } = await start();
    zombie.open("slow");
    const first = await zombie.chat("c", "work");
    await until(
      () => first.text() === "One ",
      () => first.text(),
    );
    zombie.send("SIGSTOP");
    takeOut(zombie);
    await survivor.called("work 2");
    zombie.open("two"); // its whole answer is there when it continues
    zombie.send("SIGCONT");
    await within(first.ended, "the end of the lost run");
    expect(first.events.at(-2)).toMatchObject({ type: "error" });
    survivor.open("two");
    expect(await survivor.recall("c")).toEqual(["work", "One two.", "recall"]);
    expect(survivor.calls).toEqual(["work 2", "recall 0"]);
  });
});

it("a turn records its calls after an outage of Restate", { timeout }, async () => {
  const restate = await RestateServer.start();
  onTestFinished(() => restate.remove());
  const { replicas } = await startTurnReplicas(restate);
  const [runner, other] = replicas as [TurnReplica, TurnReplica];
  runner.open("two");
  await runner.begin("c", "work");
  await runner.called("slow");
  await restate.kill();
  runner.open("slow"); // its result cannot be recorded yet
  await restate.run();
  expect(await other.recall("c")).toEqual(["work", "One two.", "recall"]);
  expect(toolsOf(runner, "slow")).toHaveLength(1);
  expect(other.calls).toEqual(["recall 0"]);
});
