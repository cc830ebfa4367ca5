// Each of these changes makes tests of this file fail: a question of a step stored before its model has ended; a turn that
// begins without its question, or in two transactions; one that is overtaken after a restart; an answer stored in two
// transactions, or without what tools said; a step's turn without a name, added instead of replaced, or shown to the step
// that runs again; `finish` told before the turn is stored; a recovery that forgets a row; a step asked twice in a life; a
// call that is made although it is recorded; a tool that starts before the call that asked for it is recorded;
// words held back until the end; a cancel that the model does not hear; a SIGTERM that aborts requests at once, does not
// wait for them, or fails a step.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createProject } from "../../harness/project.ts";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { drainFiles, SlowServer } from "./drain.ts";
import { callsOf, Execution } from "./executions.ts";
import { AgentLives } from "./lives.ts";
import { beginPoints, entryPoints, modelPoints, recordPoints, turnPoints, type Point } from "./points.ts";
import { Talker, ways, type Way } from "./talker.ts";
import { needsTool } from "./turns.ts";
import { keysOf } from "./workload.ts";
import { Random } from "../kills/plan.ts";

const timeout = 600_000;
const folder = mkdtempSync(join(tmpdir(), "agentserve-agents-"));
let worlds = 0;

function createLives(): AgentLives {
  const own = join(folder, String(++worlds));
  mkdirSync(own);
  return new AgentLives(own, join(import.meta.dirname, "talker-app.ts"));
}

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Whether the turn is in the file when the process ends there. */
const isCommitted = (point: string): boolean => point === "turn:after" || point.startsWith("entry:");

const complaints = (lives: AgentLives): string[] =>
  lives.log().flatMap(({ what, key }) => (what === "complaint" ? key : []));
/** Nothing went wrong that nobody was told of. */
const expectNoComplaints = (lives: AgentLives): void => expect(complaints(lives)).toEqual([]);
/** The warning of a turn that ends because it was interrupted too often. */
const crashed = "A turn of agent talker ended: interrupted 3 times by a crash";

describe("a workflow that asks an agent", () => {
  let lives: AgentLives;
  const ended: Execution[] = [];
  beforeAll(async () => {
    lives = createLives();
    await lives.start();
  });
  afterAll(() => lives.close());

  // Every point is met at some step; at full size, at each. They are in the order in which a step comes to them: a call that
  // is recorded is not made again.
  const quick: Record<string, string[]> = {
    text: ["asked", "record:inside model#0", "tool", "record:after tool", "turn:after"],
    object: ["half", "record:after model#0", "entry:before"],
    mapped: ["said", "record:before model#0", "turn:inside"],
    left: ["record:before tool", "asked again", "entry:inside"],
    right: ["finished", "turn:before", "entry:after"],
    "sub/deep": ["record:inside tool", "record:after model#1"],
  };
  for (const [path, some] of Object.entries(quick)) {
    const points = bySize(0, 1) ? allPoints(path) : some;
    it(`makes no call of ${path} again after kill -9 that is recorded: ${points.join(", ")}`, { timeout }, async () => {
      for (let round = 0; round < bySize(1, 2); round++) {
        const execution = new Execution(`${path.replace("/", ".")}.${round}`, lives);
        const key = `${execution.id}/${path}`;
        const passed: string[] = [];
        const rest = [...points];
        lives.arm(toDeath(rest[0]!, key));
        await execution.begin();
        // Its operator resumes it when it was interrupted several times at one place.
        const following = lives.watch(execution.follow());
        while (rest.length > 0) {
          const point = rest.shift()!;
          passed.push(point);
          await lives.died(toDeath(point, key));
          execution.look();
          // What an earlier life stored stays until it is replaced.
          const committed = passed.some(isCommitted);
          // The last record and the turn may have been part of one transaction.
          if (committed || !passed.includes(`record:after ${callsOf(path).at(-1)![1]}`))
            expect(execution.stored().includes(key), point).toBe(committed);
          checkRecords(execution, path, point);
          // A model that has finished may be recorded already.
          while (execution.has(path, /^record:\w+ (.*)$/.exec(rest[0] ?? "")?.[1] ?? "")) rest.shift();
          await lives.start(rest[0] === undefined ? {} : { arm: toDeath(rest[0], key) });
        }
        await lives.within("to complete", following);
        execution.checkCalls();
        await checkConversation(execution);
      }
    });
  }

  /** Every point of a step, in the order in which it comes to them. */
  function allPoints(path: string): string[] {
    const recording = (name: string): string[] => recordPoints.map((point) => `${point} ${name}`);
    const [asked, ...saying] = modelPoints;
    const before = needsTool(path)
      ? [asked, ...recording("model#0"), "tool", ...recording("tool"), "asked again", ...saying]
      : [asked, ...saying];
    const last = recording(needsTool(path) ? "model#1" : "model#0");
    return [...before, ...last, ...turnPoints, ...entryPoints];
  }

  function toDeath(point: string, key: string): Point {
    const [where = "", name] = point.split(" ");
    return where.startsWith("record:") ? { point: where, key: `${key} ${name}` } : { point, key };
  }

  /** What the file must have at a point, and what it cannot have. */
  function checkRecords(execution: Execution, path: string, point: string): void {
    const [, moment, name = ""] = /^record:(\w+) (.*)$/.exec(point) ?? [];
    if (moment !== undefined) expect(execution.has(path, name), point).toBe(moment === "after");
    // A tool starts when the model call that asked for it is committed.
    if (point === "tool") expect(execution.has(path, "model#0")).toBe(true);
    if (point === "asked again") expect(execution.has(path, "tool")).toBe(true);
  }

  it("asks no model again whose answer is recorded when a later step is killed", { timeout }, async () => {
    const execution = new Execution("later", lives);
    const death = { point: "step", key: "later/last" };
    lives.arm(death);
    await execution.begin();
    await lives.died(death);
    execution.look();
    await lives.start();
    await lives.within("to complete", execution.follow());
    execution.checkCalls();
    for (const key of keysOf("later")) expect(execution.asks(key.slice("later/".length)), key).toHaveLength(1);
    await checkConversation(execution);
  });

  it("leaves each turn in the file once and whole", async () => {
    await lives.kill();
    for (const execution of ended) {
      const stored = lives.stored("talker", "ada", execution.options.conversationId);
      execution.checkTurns(stored.slice(0, -2), execution.id);
      expect(stored.at(-2)).toBe(`user: after ${execution.id}`);
    }
    expectNoComplaints(lives);
  });

  /** What the model is shown later on. */
  async function checkConversation(execution: Execution): Promise<void> {
    const { userId, conversationId } = execution.options;
    const input = `after ${execution.id}`;
    const reply = await lives.ask("/agents/talker/text", { input, options: { userId, conversationId } });
    expect(reply).toMatchObject({ status: 200 });
    const asked = lives.log().findLast((line) => line.what === "ask" && line.key === input);
    execution.checkTurns(asked?.what === "ask" ? asked.lines.slice(0, -1) : [], execution.id);
    ended.push(execution);
  }
});

describe("a turn of a conversation", () => {
  let lives: AgentLives;
  beforeAll(async () => {
    lives = createLives();
    await lives.start();
  });
  afterAll(() => lives.close());

  /** How often the model and the tool are called if the process dies at a point: the first call, the tool, the second call. */
  const calls: Record<string, unknown[]> = {
    "begin:after": [1, 1, 1],
    asked: [2, 1, 1],
    "record:before model#0": [2, 1, 1],
    "record:inside model#0": [2, 1, 1],
    "record:after model#0": [1, 1, 1],
    tool: [1, 2, 1],
    "record:before tool": [1, 2, 1],
    "record:inside tool": [1, 2, 1],
    "record:after tool": [1, 1, 1],
    "asked again": [1, 1, 2],
    half: [1, 1, 2],
    said: [1, 1, 2],
    "record:before model#1": [1, 1, 2],
    "record:inside model#1": [1, 1, 2],
    "record:after model#1": [1, 1, 1],
    // The last record may be part of the same transaction.
    "turn:before": [1, 1, expect.toBeOneOf([1, 2])],
    "turn:inside": [1, 1, expect.toBeOneOf([1, 2])],
    "turn:after": [1, 1, 1],
    "entry:before": [1, 1, 1],
    "entry:inside": [1, 1, 1],
    "entry:after": [1, 1, 1],
  };
  const quick: Record<Way, string[]> = {
    text: ["begin:inside", "tool", "turn:inside", "turn:after"],
    stream: ["begin:before", "half", "record:after model#0", "entry:inside"],
    chat: ["begin:after", "record:after tool", "entry:after"],
  };
  const callsOfTurn = (key: string): number[] =>
    ["ask", "tool", "go on"].map((what) => lives.log().filter((line) => line.what === what && line.key === key).length);
  const toDeath = (point: string, key: string): Point => {
    const [where = "", name] = point.split(" ");
    if (where.startsWith("record:")) return { point: where, key: `${key}/turn ${name}` };
    return { point, key: where.startsWith("entry:") ? `${key}/turn` : key };
  };

  for (const way of ways)
    it(`a turn of ${way} completes after kill -9 once it has begun`, { timeout }, async () => {
      const talker = new Talker(`at points of ${way}`, lives);
      const points = bySize(0, 1) ? [...beginPoints.slice(0, 2), ...Object.keys(calls)] : quick[way];
      for (const point of points) {
        const key = `${talker.next}.tool`;
        const death = toDeath(point, key);
        lives.arm(death);
        // Its answer is complete before the last commit, and may have been sent.
        await talker.ask(way, key);
        await lives.died(death);
        const isBegun = point in calls;
        talker.look();
        expect(
          talker.stored().some((turn) => turn.key === key),
          point,
        ).toBe(isBegun);
        await lives.start();
        // It waits for the turn that continues.
        expect(await talker.ask(way, talker.next)).toBe(true);
        expect(callsOfTurn(key), point).toEqual(calls[point] ?? [0, 0, 0]);
      }
      await lives.kill();
      talker.check();
      expectNoComplaints(lives);
      await lives.start();
    });

  it("a turn of a chat that is asked again after kill -9 is there once", { timeout }, async () => {
    const talker = new Talker("again", lives);
    const key = "again.tool";
    for (const point of ["turn:after", "half"]) {
      lives.arm({ point, key });
      await talker.ask("chat", key);
      await lives.died({ point, key });
      await lives.start();
    }
    expect(await talker.ask("chat", key)).toBe(true);
    expect(await talker.ask("chat", talker.next)).toBe(true);
    await lives.kill();
    talker.check();
    expect(talker.stored().map((turn) => turn.key)).toEqual([key, "again.2"]);
    await lives.start();
  });

  it("a turn ends without an answer if three crashes interrupt it in one place", { timeout }, async () => {
    const talker = new Talker("three crashes", lives);
    const death = { point: "asked", key: talker.next };
    lives.arm(death);
    expect(await talker.ask("text", death.key)).toBe(false);
    for (let crash = 0; crash < 3; crash++) {
      await lives.died(death);
      talker.look();
      await lives.start(crash < 2 ? { arm: death } : {});
    }
    // The next turn is shown the message.
    const next = talker.next;
    expect(await talker.ask("text", next)).toBe(true);
    const asked = lives.log().find((line) => line.what === "ask" && line.key === next);
    expect(asked).toMatchObject({ lines: [`user: ${death.key}`, `user: ${next}`] });
    expect(callsOfTurn(death.key)).toEqual([3, 0, 0]);
    await lives.kill();
    talker.check();
    expect(complaints(lives)).toEqual([expect.stringContaining(crashed)]);
    await lives.start();
  });
});

describe("kill -9 at random moments", () => {
  it("kill -9 at any moment leaves whole turns, each once, and loses none", { timeout }, async () => {
    const lives = createLives();
    onTestFinished(() => lives.close());
    const random = new Random(seed);
    const crew = { more: true };
    const talkers = Array.from({ length: 6 }, (_, place) => new Talker(`random ${place}`, lives));
    const executions: Execution[] = [];
    const guests: Talker[] = [];
    async function talk(talker: Talker, own: Random): Promise<void> {
      while (crew.more) {
        const key = `${talker.next}${own.chance(0.4) ? ".tool" : ""}`;
        const way = own.pick(...ways);
        const answered = await talker.ask(way, key);
        // Somebody who chats asks again, with the same message; others may do what they like.
        for (let again = !answered && way === "chat"; again;) again = !(await talker.ask(way, key));
      }
    }
    /** Executions, and somebody who talks in the conversation of theirs meanwhile. */
    async function execute(place: number, own: Random): Promise<void> {
      for (let n = 0; crew.more; n++) {
        const execution = new Execution(`x${place}.${n}`, lives);
        while (!(await execution.begin()));
        executions.push(execution);
        const guest = new Talker(execution.options.conversationId, lives);
        guests.push(guest);
        const following = lives.watch(execution.follow());
        await guest.ask(own.pick("text", "stream"), guest.next);
        await following;
      }
    }
    const own = (place: number): Random => new Random(seed + place * 7_919);
    const working = lives.watch(
      Promise.all([
        ...talkers.map((talker, place) => talk(talker, own(place))),
        ...[1, 2, 3].map((place) => execute(place, own(place + 100))),
      ]),
    );
    const kills = bySize(3, 20);
    await lives.killOften({
      kills,
      isAtWork: () => lives.untilMore("somebody to be at work", () => lives.log().length, 5),
      moment: () => random.between(0, 150),
      onKilled() {
        for (const execution of executions) execution.look();
        for (const talker of [...talkers, ...guests]) talker.look();
      },
    });
    crew.more = false;
    await lives.within("everybody to end", working);
    await lives.kill();
    for (const talker of [...talkers, ...guests]) talker.check();
    for (const execution of executions) {
      execution.checkCalls();
      execution.checkTurns(lives.stored("talker", "ada", execution.options.conversationId), execution.id);
    }
    // The kills may have interrupted a turn three times: `check` knows which.
    expect(complaints(lives).filter((one) => !one.startsWith(crashed))).toEqual([]);
    // Otherwise it would show nothing.
    const asks = lives.log().flatMap(({ what, key }) => (what === "ask" || what === "go on" ? `${what} ${key}` : []));
    expect(asks.length - new Set(asks).size).toBeGreaterThan(kills);
  });
});

describe("what an agent says in a workflow", () => {
  let lives: AgentLives;
  beforeAll(async () => {
    lives = createLives();
    await lives.start();
  });
  afterAll(() => lives.close());
  const reached = (gate: string): boolean => lives.log().some(({ what, key }) => what === "gate" && key === gate);
  const answered = (key: string): string | undefined => {
    const line = lives.log().find((one) => one.what === "answer" && one.key === key);
    return line?.what === "answer" ? line.text : undefined;
  };

  it("streams what an agent says in a workflow word by word, while the model still thinks about the next", async () => {
    const execution = new Execution("gated.words", lives);
    const { id, options } = execution;
    const began: any[] = [];
    const attached: any[] = [];
    const streaming = lives.ask("/workflows/talk/stream", { input: {}, options }, { take: (one) => began.push(one) });
    await lives.until("to begin", () => began.length > 0);
    const attaching = lives.ask(`/workflows/talk/executions/${id}/stream`, undefined, {
      take: (one) => attached.push(one),
    });
    await lives.until("to be attached", () => attached.length > 0);
    const deltasOf = (events: any[], path: string) =>
      events.filter(({ type, from }) => type === "text-delta" && from === path);
    const keys = keysOf(id);
    while (keys.length > 0) {
      await lives.until("the next question", () => keys.some((key) => reached(`${key} 0`)));
      const [key = ""] = keys.splice(
        keys.findIndex((one) => reached(`${one} 0`)),
        1,
      );
      const path = key.slice(id.length + 1);
      for (let word = 0; answered(key) === undefined; word++) {
        for (const events of [began, attached]) expect(deltasOf(events, path)).toHaveLength(word);
        lives.open(`${key} ${word}`);
        // The gate of the next word is closed.
        for (const events of [began, attached])
          await lives.until(`${key} ${word} to be heard`, () => deltasOf(events, path).length > word);
        await lives.until("the next word", () => reached(`${key} ${word + 1}`) || answered(key) !== undefined);
      }
      for (const events of [began, attached]) {
        const deltas = deltasOf(events, path);
        expect(deltas.map(({ delta }) => delta).join("")).toBe(answered(key));
        for (const event of deltas) {
          expect(event).toMatchObject({ executionId: id, from: path, timestamp: expect.stringMatching(/^\d{4}-.*Z$/) });
          expect(event).not.toHaveProperty("seq");
        }
      }
    }
    for (const reply of [await streaming, await attaching])
      expect(reply!.events.at(-1)).toMatchObject({ type: "workflow-result", status: "completed" });
    // Live only: whoever comes later gets none of it.
    const late = await lives.ask(`/workflows/talk/executions/${id}/stream`);
    expect(late!.events.map(({ type }) => type)).not.toContain("text-delta");
    const numbers = late!.events.slice(0, -1).map(({ seq }) => seq);
    expect(numbers).toEqual(numbers.map((_, place) => place + 1));
  });

  it("aborts the model of a workflow that is cancelled, and does not store its turn", async () => {
    const { id, options } = new Execution("gated.cancelled", lives);
    const streaming = lives.ask("/workflows/talk/stream", { input: {}, options });
    await lives.until("to ask", () => reached(`${id}/text 0`));
    lives.open(`${id}/text 0`);
    await lives.until("to be in the middle of it", () => reached(`${id}/text 1`));
    const cancelled = await lives.ask(`/workflows/talk/executions/${id}/cancel`, { reason: "enough" });
    expect(cancelled).toMatchObject({ status: 200, body: { data: { cancellation: { reason: "enough" } } } });
    await lives.until("to be aborted", () =>
      lives.log().some(({ what, key }) => what === "abort" && key === `${id}/text`),
    );
    expect((await streaming)!.events.at(-1)).toMatchObject({ type: "workflow-result", status: "error" });
    const { userId, conversationId } = options;
    const after = await lives.ask("/agents/talker/text", { input: "after", options: { userId, conversationId } });
    expect(after!.status).toBe(200);
    const asked = lives.log().findLast(({ what }) => what === "ask");
    expect(asked).toMatchObject({ key: "after", lines: ["user: after"] });
    await lives.kill();
    expect(lives.stored("talker", userId, conversationId)).toHaveLength(2);
  });
});

describe("SIGTERM while an agent answers", () => {
  const drainMs = bySize(4_000, 10_000);
  const own = (way: string): string => `of-${way}`;

  async function play(command: string): Promise<void> {
    const project = createProject(drainFiles(drainMs));
    const first = await SlowServer.start(command, project);
    const willing = ways.map((way) => first.ask(way, way, own(way)));
    await expect.poll(() => first.asked().length).toBe(ways.length);
    await Promise.all(willing.map(({ begun }) => begun));
    await first.close();
    first.release(...ways);
    const [text, stream, chat] = await Promise.all(willing.map(({ ended }) => ended));
    expect(text, command).toMatchObject({ status: 200, text: expect.stringContaining('"text":"so be it"') });
    expect(stream!.events.at(-1), command).toMatchObject({ type: "finish" });
    expect(chat!.events.slice(-2), command).toMatchObject([{ type: "finish" }, "[DONE]"]);
    expect(await first.child.ended, command).toMatchObject({ code: 0 });

    const starting = performance.now();
    const second = await SlowServer.start(command, project);
    const startMs = performance.now() - starting;
    const stubborn = ways.map((way) => second.ask(way, `${way}-stubborn`, own(way)));
    const waiting = second.ask("text", "waiting", own("text"));
    const execution = second.post("/workflows/asks/execute", {
      input: {},
      options: { executionId: "step", conversationId: own("step"), userId: "ada" },
    });
    await expect.poll(() => second.asked().length).toBe(7);
    const shown = second.asked().filter((said) => said.at(-1)!.endsWith("-stubborn"));
    // All that was answered while it closed was stored.
    expect(shown.toSorted()).toEqual(ways.map((way) => [way, "so be it", `${way}-stubborn`]).toSorted());
    await Promise.all(stubborn.map(({ begun }) => begun));
    const began = performance.now();
    await second.close();
    const [late, cut, hung] = await Promise.all(stubborn.map(({ ended }) => ended));
    for (const { status, text: body } of [late!, await waiting.ended]) {
      expect([command, status]).toEqual([command, 503]);
      expect(JSON.parse(body)).toEqual({ success: false, error: expect.any(String) });
    }
    expect(cut!.events.at(-1), command).toEqual({ type: "error", error: expect.any(String) });
    expect(
      hung!.events.findLast((event) => event !== "[DONE]"),
      command,
    ).toMatchObject({ type: "error" });
    const refused = await execution;
    expect([refused.status, refused.headers.get("x-execution-id")]).toEqual([503, "step"]);
    expect(await second.child.ended, command).toMatchObject({ code: 0 });
    // What it needs beside the grace is a matter of the machine, and so is its start.
    expect(performance.now() - began, command).toBeLessThan(drainMs + 1_000 + 2 * startMs);

    const third = await SlowServer.start(command, project);
    third.release("step", "after", ...ways.map((way) => `${way}-stubborn`));
    const state = async () => (await (await fetch(`${third.url}/workflows/asks/executions/step/state`)).json()).data;
    await expect.poll(state).toMatchObject({ status: "completed", result: { data: "so be it" } });
    for (const way of [...ways, "step"]) await third.ask("text", "after", own(way)).ended;
    const questions = third.asked().map((said) => said.at(-1));
    for (const continued of ["step", ...ways.map((way) => `${way}-stubborn`)])
      expect(questions.filter((question) => question === continued)).toHaveLength(2);
    // It had not begun.
    expect(questions).not.toContain("waiting");
    // The turns that were cut off have continued.
    expect(third.asked().slice(-4)).toEqual([
      ...ways.map((way) => [way, "so be it", `${way}-stubborn`, "so be it", "after"]),
      ["step", "so be it", "after"],
    ]);
  }

  it("SIGTERM lets answers finish within the grace; others continue after the restart", () =>
    Promise.all((bySize(0, 1) ? ["start", "dev"] : ["start"]).map(play)));
});
