// oxlint-disable vitest/no-standalone-expect -- the commands of the property are run inside a test
// Each of these changes makes tests of this file fail: turns that do not wait for each other, or never let go; an edit or
// a regenerate that drops nothing; a window of 42, or not cut at a message of the user's; a conversation that users share;
// a history taken from the client; a turn that failed or did not match its schema, and is stored; 33 who wait; somebody
// who leaves and stays in the line; `memory: false` ignored.
import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { andAgent, defineAgent, defineTool, defineWorkflow } from "agentserve";
import { scriptedModel } from "agentserve/models";
import fc from "fast-check";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toLine } from "../faults/agents/turns.ts";
import { withBounds } from "../harness/bounds.ts";
import { finishPart } from "../harness/finish-part.ts";
import { onFile } from "../harness/backends.ts";
import { createGates } from "../harness/gates.ts";
import { startServer, startTestServer, type TestServer } from "../harness/server.ts";
import { bySize } from "../harness/size.ts";
import { within } from "../harness/waiting.ts";
import { newFile, query } from "../workflows/waits/serve.ts";

// The model. What it is to do stands in the options of its provider.

interface Ask {
  /** Of the request that asks: each has its own. */
  readonly name: string;
  /** All that it was shown. */
  readonly lines: string[];
  /** Whether it goes on after its tool. */
  readonly again: boolean;
}
const asks: Ask[] = [];
const gates = createGates();
const answerOf = (name: string): string => `answer of ${name}`;
const objectOf = (name: string): string => JSON.stringify({ answer: answerOf(name) });
const look = defineTool({
  description: "Looks",
  inputSchema: v.object({ name: v.string() }),
  execute: ({ name }) => ({ name }),
});

async function* toAnswer(options: LanguageModelV4CallOptions): AsyncGenerator<LanguageModelV4StreamPart> {
  const { prompt, responseFormat, abortSignal: signal, providerOptions } = options;
  const { name, what } = providerOptions!["test"] as unknown as { name: string; what: What };
  const messages = prompt.filter(({ role }) => role !== "system");
  const again = messages.at(-1)!.role === "tool";
  asks.push({ name, lines: messages.map((message) => toLine(message as never)), again });
  if (what === "fail") throw new Error("the model fails");
  const left = new Promise<never>((_, reject) => {
    signal!.addEventListener("abort", () => {
      void gates.pass(`${name} is left`);
      reject(signal!.reason as Error);
    });
  });
  left.catch(() => {});
  const stay = (): Promise<unknown> => Promise.race([gates.pass(name), left]);
  if (what === "hang") await stay();
  yield { type: "stream-start", warnings: [] };
  const calls = what === "tool" && !again;
  if (calls) yield { type: "tool-call", toolCallId: name, toolName: "look", input: JSON.stringify({ name }) };
  else {
    yield { type: "text-start", id: "t" };
    const text = responseFormat?.type === "json" ? objectOf(name) : answerOf(name);
    const half = Math.floor(text.length / 2);
    yield { type: "text-delta", id: "t", delta: text.slice(0, half) };
    if (what === "break") throw new Error("the model breaks off");
    if (what === "pause") await stay();
    yield { type: "text-delta", id: "t", delta: what === "mismatch" ? "" : text.slice(half) };
    yield { type: "text-end", id: "t" };
  }
  yield finishPart(calls ? "tool-calls" : "stop");
}
/** How a turn ends: answered, also with a tool; failed, at once or later; left by its client, before its answer or in it. */
type What = "ok" | "tool" | "fail" | "break" | "mismatch" | "hang" | "pause";
const isAnswered = (what: What): boolean => what === "ok" || what === "tool";
const model = scriptedModel(Array.from({ length: 1_000_000 }, () => toAnswer));
const common = { instructions: "Answer.", model, tools: { look }, maxRetries: 0 };
const talker = defineAgent({ id: "talker", ...common });
const other = defineAgent({ id: "other", ...common });
const forgetful = defineAgent({ id: "forgetful", memory: false, ...common });
// Schemas are not what is tested here: on a busy machine 250 ms may be too short for one.
const agents = withBounds({ schemaMs: 10_000 }, { agents: [talker, other, forgetful] });

// The oracle: a plain list of messages, by the rules of docs/agents.md.

/** A message, and the id by which the client knows it. */
interface Entry {
  readonly id?: string | undefined;
  readonly line: string;
}
interface Request {
  /** What the client sends, oldest first. */
  readonly sent: readonly Entry[];
  readonly regenerate?: string | undefined;
}
class Oracle {
  /** Per agent, user and conversation. */
  readonly #stored = new Map<string, readonly Entry[]>();

  of(key: string): readonly Entry[] {
    return this.#stored.get(key) ?? [];
  }

  /** What stays of the conversation, and what is new. */
  place(key: string, { sent, regenerate }: Request): { before: readonly Entry[]; fresh: readonly Entry[] } {
    const stored = this.of(key);
    if (stored.length === 0) return { before: [], fresh: sent };
    const last = sent.at(-1)!;
    const find = (id: string | undefined): number => (id === undefined ? -1 : stored.findIndex((one) => one.id === id));
    const from = [find(regenerate), find(last.id)].find((place) => place >= 0) ?? stored.length;
    const before = stored.slice(0, from);
    const asked = before.at(-1);
    // To answer again, the question is there already, whether the client names it or not.
    const isAgain = find(regenerate) >= 0 && asked?.line === last.line;
    const isKnown = last.id === undefined ? isAgain : asked?.id === last.id;
    return { before, fresh: isKnown ? [] : [last] };
  }

  prompt(key: string, request: Request): string[] {
    const { before, fresh } = this.place(key, request);
    const last = [...before, ...fresh].slice(-40).map(({ line }) => line);
    return last.slice(last.findIndex((line) => line.startsWith("user: ")));
  }

  /** The question of a turn without an answer, unless it was to replace messages. */
  keep(key: string, request: Request): void {
    const { before } = this.place(key, request);
    if (before.length === this.of(key).length) this.store(key, request, []);
  }

  /** The turn, whole. */
  store(key: string, request: Request, answered: readonly Entry[]): void {
    const { before, fresh } = this.place(key, request);
    this.#stored.set(key, [...before, ...fresh, ...answered]);
  }
}

// What clients do.

const ways = ["text", "stream", "chat", "object", "stream-object"] as const;
type Way = (typeof ways)[number];
interface Turn extends Request {
  readonly agent: string;
  readonly userId: string | undefined;
  readonly conversationId: string;
  readonly way: Way;
  readonly name: string;
  readonly what: What;
  /** As the body of `useChat`, with UI messages; else `input`, with model messages. */
  readonly hook: boolean;
}
const keyOf = ({ agent, userId, conversationId }: Turn): string => JSON.stringify([agent, userId, conversationId]);
const schema = { type: "object", properties: { answer: { type: "string" } }, required: ["answer"] };

function toMessage({ id, line }: Entry, hook: boolean): object {
  const [, role, text] = /^(user|assistant): (.*)$/.exec(line)!;
  return { ...(id !== undefined && { id }), role, ...(hook ? { parts: [{ type: "text", text }] } : { content: text }) };
}

function toBody({ way, sent, regenerate, hook, userId, conversationId, name, what }: Turn): object {
  const providerOptions = { test: { name, what } };
  const leaves = what === "hang" || what === "pause";
  const options = {
    ...(userId !== undefined && { userId }),
    conversationId,
    providerOptions,
    ...(leaves && { onDisconnect: "abort" }),
  };
  const [first] = sent;
  const isPlain = sent.length === 1 && first!.id === undefined && way !== "chat" && !hook;
  const input = isPlain ? first!.line.slice("user: ".length) : sent.map((entry) => toMessage(entry, hook));
  if (way === "object" || way === "stream-object") return { input, schema, options };
  if (way !== "chat") return { input, options };
  const trigger = regenerate === undefined ? "submit-message" : "regenerate-message";
  const { conversationId: id, ...rest } = options;
  return hook
    ? { id, messages: input, trigger, messageId: regenerate, options: rest }
    : { input, options, ...(regenerate !== undefined && { trigger, messageId: regenerate }) };
}

class World {
  readonly oracle = new Oracle();
  readonly #server: TestServer;
  #asked: number = asks.length;

  constructor(server: TestServer) {
    this.#server = server;
  }

  /** These turns, all at once: each is shown what the ones before it left, in the order in which they were asked. */
  async play(...turns: Turn[]): Promise<void> {
    const answerIds = await within(Promise.all(turns.map((turn) => this.#send(turn))));
    const asked = asks.slice(this.#asked);
    this.#asked = asks.length;
    const first = asked.filter(({ again }) => !again);
    expect(first.map(({ name }) => name).toSorted()).toEqual(turns.map(({ name }) => name).toSorted());
    for (const { name, lines } of first) {
      const index = turns.findIndex((turn) => turn.name === name);
      const turn = turns[index]!;
      const { way, what } = turn;
      expect(lines, name).toEqual(this.oracle.prompt(keyOf(turn), turn));
      const input = JSON.stringify({ name });
      const tool = what === "tool" ? [`assistant: calls look ${input}`, `tool: gives look ${input}`] : [];
      const goesOn = asked.filter((one) => one.again && one.name === name);
      expect(goesOn.map((one) => one.lines)).toEqual(tool.length > 0 ? [[...lines, ...tool]] : []);
      if (!isAnswered(what)) this.oracle.keep(keyOf(turn), turn);
      if (!isAnswered(what)) continue;
      const text = way === "object" || way === "stream-object" ? objectOf(name) : answerOf(name);
      const answered = [...tool, `assistant: ${text}`].map((line) => ({ id: answerIds[index], line }));
      this.oracle.store(keyOf(turn), turn, answered);
    }
  }

  /** Resolves to the id of the answer, where the client is told. */
  async #send(turn: Turn): Promise<string | undefined> {
    const { agent, way, name, what } = turn;
    const path = `/agents/${agent}/${way}`;
    if (what === "hang" || what === "pause") return this.#leave(path, turn);
    const streams = way === "stream" || way === "chat" || way === "stream-object";
    const { status, events, body } = await this.#server.post(path, toBody(turn));
    if (isAnswered(what)) {
      expect([name, status, body?.error]).toEqual([name, 200, undefined]);
      if (way === "text") expect(body.data.text).toBe(answerOf(name));
      if (streams) expect(events.at(-1).type).toBe(way === "stream-object" ? "object" : "finish");
      return way === "chat" ? events[0].messageId : undefined;
    }
    // Once a stream has begun, what fails is its last event.
    const begun = streams && what !== "fail";
    expect([name, status]).toEqual([name, begun ? 200 : 502]);
    if (begun) expect(events.at(-1).type, name).toBe("error");
    return undefined;
  }

  /** Goes away before the model has said anything, or in the middle of its answer. */
  async #leave(path: string, turn: Turn): Promise<undefined> {
    const leaving = new AbortController();
    const sending = this.#server.send(path, toInit(turn, leaving.signal));
    const { name, what, way } = turn;
    if (what === "pause" && way !== "text" && way !== "object") {
      const reader = (await sending).body!.getReader();
      const reading = (async () => {
        while (!(await reader.read()).done);
      })();
      await gates.reached(name);
      await reader.cancel();
      await reading;
    } else {
      await gates.reached(name);
      leaving.abort();
      expect((await sending).status).toBe(499);
    }
    await gates.reached(`${name} is left`); // the model hears of it
    return undefined;
  }
}

const toInit = (turn: Turn, signal?: AbortSignal): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(toBody(turn)),
  ...(signal && { signal }),
});

// The property.

const often = <T>(usual: T, ...others: T[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(usual) }, ...others.map((one) => fc.constant(one)));
const where = fc.record({
  agent: often("talker", "other"),
  userId: often<string | undefined>("ada", "bob", undefined),
  conversation: often("a", "b"),
});
const how = fc.record({
  way: often<Way>("chat", "text", "stream", "object", "stream-object"),
  hook: fc.boolean(),
  ids: often(true, false),
  what: often<What>("ok", "tool", "tool", "fail", "break", "mismatch", "hang", "pause"),
});
/** What the client sends before its last message: nothing, what it knows, or something else. */
const history = fc.constantFrom("nothing", "all", "forged");
const command = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant("say" as const), where, how, history }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant("edit" as const), where, how, which: fc.nat(), history }) },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant("regenerate" as const),
      where,
      how,
      which: fc.nat(),
      names: fc.constantFrom("answer", "answer", "question", "nobody"),
      anew: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant("at once" as const),
      where,
      hows: fc.array(how, { minLength: 2, maxLength: 6 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ type: fc.constant("go on" as const), where, times: fc.integer({ min: 12, max: 24 }) }),
  },
);
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;
type How = typeof how extends fc.Arbitrary<infer T> ? T : never;

describe("a conversation", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer("in process", { config: agents });
  });
  afterAll(() => server.close());
  let runs = 0;
  let names = 0;
  const counts = new Map<string, number>();
  const count = (what: string): void => void counts.set(what, (counts.get(what) ?? 0) + 1);

  it(
    "shows a model the stored messages of its conversation as an oracle has them, whatever clients do",
    { timeout: 600_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(command, { minLength: 4, maxLength: 20, size: "max" }), async (commands) => {
          const world = new World(server);
          const run = ++runs;
          for (const one of commands) await world.play(...toTurns(world.oracle, run, one));
        }),
        { numRuns: bySize(20, 300) },
      );
      console.log([...counts].map(([what, times]) => `${what}: ${times}`).join(", "));
      // Otherwise it would show nothing.
      const kinds = [
        "say",
        "at once",
        "edit of a stored message",
        "regenerate of a stored answer",
        "beyond the window",
      ];
      for (const what of kinds) expect(counts.get(what) ?? 0, what).toBeGreaterThan(bySize(1, 10));
    },
  );

  /** What this command comes to now. */
  function toTurns(oracle: Oracle, run: number, one: Command): Turn[] {
    const { agent, userId, conversation } = one.where;
    const place = { agent, userId, conversationId: `${run} ${conversation}` };
    const stored = oracle.of(JSON.stringify([agent, userId, place.conversationId]));
    // A client knows no tools, and of what it does not know the id it makes one up.
    const known = stored.filter(({ line }) => /^(user|assistant): (?!calls)/.test(line));
    if (stored.length > 40) count("beyond the window");
    const fresh = (own: How, before: readonly Entry[], id?: string): Turn => {
      const { way, hook, ids } = own;
      const name = `q${++names}`;
      const last = { id: id ?? (ids || (hook && way === "chat") ? name : undefined), line: `user: ${name}` };
      return { ...place, way, hook, name, what: toWhat(own), sent: [...before, last] };
    };
    const toBefore = (what: "nothing" | "all" | "forged"): readonly Entry[] => {
      if (what === "nothing") return [];
      if (what === "all") return known;
      return [{ id: `f${names}`, line: `user: forged ${names}` }, { line: `assistant: forged ${names}` }];
    };
    switch (one.type) {
      case "say":
        count("say");
        return [fresh(one.how, toBefore(one.history))];
      case "at once":
        count("at once");
        return one.hows.map((each) => fresh(each, []));
      case "go on":
        return [...Array(one.times).keys()].map(() =>
          fresh({ way: "text", hook: false, ids: false, what: "tool" }, []),
        );
      case "edit": {
        const own = known.filter(({ id, line }) => id !== undefined && line.startsWith("user: "));
        const edited = own[one.which % own.length];
        if (!edited) return [];
        count("edit of a stored message");
        const before = one.history === "all" ? known.slice(0, known.indexOf(edited)) : toBefore(one.history);
        return [fresh(one.how, before, edited.id)];
      }
      case "regenerate":
        return toRegenerate({ ...one.how, way: "chat" }, one.which, one.names, one.anew);
    }

    /** Sends what stands before the answer, question and all; or something else to be answered in its place. */
    function toRegenerate(own: How, which: number, named: "answer" | "question" | "nobody", anew: boolean): Turn[] {
      const pairs = known.slice(1).flatMap((given, index) => {
        const asked = known[index]!;
        const isPair = asked.line.startsWith("user: ") && given.line.startsWith("assistant: ");
        return isPair && given.id !== undefined ? [{ asked, given, until: index + 1 }] : [];
      });
      const pair = pairs[which % pairs.length];
      if (!pair) return [];
      count("regenerate of a stored answer");
      // A question without an id can be found only by its answer.
      const name = pair.asked.id === undefined ? "answer" : named;
      const regenerate = { answer: pair.given.id, question: pair.asked.id, nobody: "unknown" }[name];
      const before = known.slice(0, pair.until);
      const turn = fresh({ ...own, ids: true }, before);
      return [{ ...turn, regenerate, sent: anew ? turn.sent : before }];
    }
  }
});

/** An answer can fail to match its schema only where there is one. */
const toWhat = ({ what, way }: How): What =>
  what === "mismatch" && way !== "object" && way !== "stream-object" ? "break" : what;

// The bounds.

const ada = { agent: "talker", userId: "ada", hook: false, way: "text" as const };
let others = 0;
/** A turn of one message. */
function toTurn(conversationId: string, more: Partial<Turn> = {}): Turn {
  const name = `b${++others}`;
  return { ...ada, conversationId, name, what: "ok", sent: [{ line: `user: ${name}` }], ...more };
}
const pathOf = ({ agent, way }: Turn): string => `/agents/${agent}/${way}`;
const askedOf = ({ name }: Turn): string[][] => asks.filter((one) => one.name === name).map(({ lines }) => lines);
const linesOf = ({ name, way }: Turn): string[] => [
  `user: ${name}`,
  `assistant: ${way.includes("object") ? objectOf(name) : answerOf(name)}`,
];

describe("turns that wait for another of the same conversation", () => {
  async function setUp() {
    const server = await startTestServer("in process", { config: agents });
    // Starts the process that checks schemas, so that nothing else is refused.
    await server.post("/agents/talker/object", { input: "", schema: { type: "string" } });
    const first = toTurn("line", { what: "hang" });
    const answering = server.post(pathOf(first), toBody(first));
    await gates.reached(first.name);
    return { server, first, answering };
  }

  it("at most 32 turns wait in a conversation: the next is 503, the others are answered in order", async () => {
    const { server, first, answering } = await setUp();
    const turns = Array.from({ length: 33 }, (_, index) => toTurn("line", { way: ways[index % 5]! }));
    const answers = turns.map((turn) => server.post(pathOf(turn), toBody(turn)));
    const { status, headers, body } = await Promise.race(answers);
    expect([status, body.success, headers.get("retry-after")]).toEqual([503, false, expect.stringMatching(/^\d+$/)]);
    // Other conversations have a line of their own: somebody else's, another agent's.
    for (const more of [{ userId: "bob" }, { userId: undefined }, { agent: "other" }]) {
      const turn = toTurn("line", more);
      expect((await server.post(pathOf(turn), toBody(turn))).status).toBe(200);
      expect(askedOf(turn)).toEqual([[`user: ${turn.name}`]]);
    }
    expect(turns.flatMap(askedOf), "nobody is asked before").toEqual([]);
    gates.open(first.name);
    expect((await answering).status).toBe(200);
    const all = await Promise.all(answers);
    expect(all.filter((one) => one.status !== 200)).toHaveLength(1);
    const served = turns.filter((_, index) => all[index]!.status === 200);
    const inOrder = asks.flatMap(({ name }) => served.filter((turn) => turn.name === name));
    expect(inOrder).toHaveLength(32);
    for (const [index, turn] of inOrder.entries()) {
      const before = [first, ...inOrder.slice(0, index)].flatMap(linesOf).slice(-39);
      expect(askedOf(turn)).toEqual([[...before.slice(before.length === 39 ? 1 : 0), `user: ${turn.name}`]]);
    }
  });

  it("a waiting turn leaves the line with its client, and its model is not asked", async () => {
    const { server, first, answering } = await setUp();
    const turns = Array.from({ length: 33 }, (_, index) => toTurn("line", { way: ways[index % 3]! }));
    const sent = turns.map((turn) => {
      const leaving = new AbortController();
      const answer = server.send(pathOf(turn), toInit(turn, leaving.signal)).then(async (response) => {
        await response.text();
        return { turn, status: response.status };
      });
      return { turn, leaving, answer };
    });
    const refused = await Promise.race(sent.map(({ answer }) => answer));
    expect(refused.status).toBe(503); // so the line is full
    const waiting = sent.filter(({ turn }) => turn !== refused.turn);
    const gone = [0, 15, 31].map((index) => waiting[index]!);
    for (const { leaving, answer } of gone) {
      leaving.abort();
      expect((await answer).status).toBe(499);
    }
    const late = Array.from({ length: 4 }, () => toTurn("line"));
    const answers = late.map((turn) => server.post(pathOf(turn), toBody(turn)));
    expect((await Promise.race(answers)).status).toBe(503); // three places were free, and no more
    gates.open(first.name);
    expect((await answering).status).toBe(200);
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([200, 200, 200, 503]);
    for (const one of waiting) {
      const left = gone.includes(one);
      expect([(await one.answer).status, askedOf(one.turn).length]).toEqual(left ? [499, 0] : [200, 1]);
    }
    expect(askedOf(refused.turn)).toEqual([]);
  });
});

describe("steps of one execution that ask in its conversation", () => {
  it("steps of one execution wait for each other in its conversation, however many they are", async () => {
    const agent = defineAgent({ id: "talker", ...common, providerOptions: { test: { name: "branch", what: "ok" } } });
    const steps = Array.from({ length: 40 }, (_, index) => andAgent({ id: `s${index}`, agent, prompt: `s${index}` }));
    const workflow = defineWorkflow({ id: "many" }).andAll({ id: "all", steps });
    const server = await startTestServer("in process", { config: { agents: [agent], workflows: [workflow] } });
    const options = { conversationId: "c", userId: "ada" };
    const { status, body } = await server.post("/workflows/many/execute", { input: {}, options });
    expect([status, body.data?.result.length]).toEqual([200, 40]);
  });
});

describe("an agent without a memory", () => {
  it("stores nothing for an agent without a memory, which is shown what the client sends", async () => {
    const path = newFile();
    const backend = onFile(path); // which is read below
    const server = await startTestServer("in process", { config: agents, backend });
    for (const way of ways) {
      const turn = toTurn("c", { agent: "forgetful", way });
      expect((await server.post(pathOf(turn), toBody(turn))).status).toBe(200);
      const sent = [...linesOf(turn), "user: next"].map((line) => ({ line }));
      const next = toTurn("c", { agent: "forgetful", way, sent });
      expect((await server.post(pathOf(next), toBody(next))).status).toBe(200);
      expect(askedOf(turn)).toEqual([[`user: ${turn.name}`]]);
      expect(askedOf(next)).toEqual([[...linesOf(turn), "user: next"]]);
    }
    // They wait for nobody.
    const [first, second] = [toTurn("c", { agent: "forgetful", what: "hang" }), toTurn("c", { agent: "forgetful" })];
    const answering = server.post(pathOf(first), toBody(first));
    await gates.reached(first.name);
    expect((await server.post(pathOf(second), toBody(second))).status).toBe(200);
    gates.open(first.name);
    expect((await answering).status).toBe(200);
    await server.close();
    for (const table of ["messages", "conversations"]) expect(query(path, `select * from ${table}`)).toEqual([]);
  });
});
