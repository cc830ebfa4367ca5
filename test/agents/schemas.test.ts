import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { defineAgent } from "agentserve";
import { scriptedModel } from "agentserve/models";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseEvents } from "../harness/client.ts";
import { patienceMs } from "../harness/patience.ts";
import { describeServer } from "../harness/server.ts";
import { bySize } from "../harness/size.ts";

type Json = Record<string, unknown>;
const endpoints = ["object", "stream-object"] as const;

/** A server, as built, in a process of its own. `verbatim` says what it is told, and so whatever an attacker wants. */
const hostCode = `
const [dist, limits] = process.argv.slice(2);
const { createServer, defineAgent, embedded } = await import(dist + "/index.mjs");
const { echoModel } = await import(dist + "/models.mjs");
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const end = { usage, finishReason: { unified: "stop", raw: "stop" } };
const said = ({ prompt }) => prompt.findLast(({ role }) => role === "user").content.map(({ text }) => text).join("");
function* parts(text) {
  yield { type: "stream-start", warnings: [] };
  yield { type: "text-start", id: "t" };
  for (let at = 0; at < text.length; at += 2_000) yield { type: "text-delta", id: "t", delta: text.slice(at, at + 2_000) };
  yield { type: "text-end", id: "t" };
  yield { type: "finish", ...end };
}
const verbatim = {
  specificationVersion: "v4", provider: "test", modelId: "verbatim", supportedUrls: {},
  doGenerate: async (options) => ({ content: [{ type: "text", text: said(options) }], warnings: [], ...end }),
  doStream: async (options) => ({ stream: ReadableStream.from(parts(said(options))) }),
};
const agents = [["verbatim", verbatim], ["echo", echoModel()]];
const server = createServer({
  agents: agents.map(([id, model]) => defineAgent({ id, model, instructions: "" })),
  backend: embedded({ path: ":memory:" }),
  server: { limits: JSON.parse(limits) },
});
const prototypes = [Object, Array, String, Function, Promise].map(({ prototype }) => prototype);
const names = () => prototypes.map((prototype) => Reflect.ownKeys(prototype).map(String).join());
const before = names();
const { url } = await server.listen({ port: 0 });
process.on("message", (message) => {
  const { user, system } = process.threadCpuUsage();
  if (message === "collect") globalThis.gc();
  const polluted = JSON.stringify(names()) !== JSON.stringify(before) || {}.polluted !== undefined;
  process.send({ cpu: (user + system) / 1e3, heap: process.memoryUsage().heapUsed, polluted });
});
process.send(url);
`;

interface Probe {
  /** The processor time that the event loop's thread has taken, in milliseconds. */
  readonly cpu: number;
  readonly heap: number;
  readonly polluted: boolean;
}
interface Host {
  readonly child: ChildProcess;
  /** Asks until the machine has time for the check: as long as it has none, the answer is 503. */
  ask(endpoint: string, attack: Omit<Attack, "name" | "verdicts">): Promise<Verdict>;
  askOnce(endpoint: string, attack: Omit<Attack, "name" | "verdicts">): Promise<Verdict>;
  probe(message?: "collect"): Promise<Probe>;
  /** Of the process; undefined where the system does not say. */
  size(): { threads: number; rss: number } | undefined;
  close(): Promise<void>;
}
interface Verdict {
  /** As `object` would put it: of a stream, what its last event means. */
  readonly status: number;
  readonly message: string;
  readonly value: unknown;
  readonly ms: number;
}

async function openHost(limits: Json = {}): Promise<Host> {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-"));
  writeFileSync(join(folder, "host.mjs"), hostCode);
  const child = fork(join(folder, "host.mjs"), [resolve("dist"), JSON.stringify(limits)], {
    execArgv: ["--expose-gc"],
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  const ended = once(child, "exit").then(([code, signal]) => {
    throw new Error(`the server has ended: ${code ?? signal}`);
  });
  ended.catch(() => {});
  const hear = async (): Promise<unknown> => (await Promise.race([once(child, "message"), ended]))[0];
  const url = (await hear()) as string;

  async function ask(endpoint: string, { agent = "verbatim", schema, says }: Omit<Attack, "name" | "verdicts">) {
    const began = performance.now();
    const input = typeof says === "string" ? says : JSON.stringify(says);
    const response = await fetch(`${url}/agents/${agent}/${endpoint}`, {
      method: "POST",
      signal: AbortSignal.timeout(patienceMs),
      headers: { "content-type": "application/json" },
      body: `{"input":${JSON.stringify(input)},"schema":${typeof schema === "string" ? schema : JSON.stringify(schema)}}`,
    });
    const text = await response.text();
    const ms = performance.now() - began;
    return { ms, ...(response.ok && endpoint === "stream-object" ? ofStream(text) : ofBody(response.status, text)) };
  }

  return {
    child,
    ask: (endpoint, attack) => untilChecked(() => Promise.race([ask(endpoint, attack), ended])),
    askOnce: (endpoint, attack) => Promise.race([ask(endpoint, attack), ended]),
    async probe(message) {
      child.send(message ?? "read");
      return (await hear()) as Probe;
    },
    size() {
      if (process.platform !== "linux") return undefined;
      const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
      const number = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)![1]);
      return { threads: number("Threads"), rss: number("VmRSS") * 1_024 };
    },
    async close() {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill("SIGKILL");
        await ended.catch(() => {});
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Starting a process for the check may take longer than a request waits for it. */
async function untilChecked<T extends { readonly status: number }>(send: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const verdict = await send();
    if (verdict.status !== 503 || performance.now() > deadline) return verdict;
  }
}

function ofBody(status: number, text: string): Omit<Verdict, "ms"> {
  const { data, error = "" } = JSON.parse(text);
  return { status, message: error, value: data };
}

function ofStream(text: string): Omit<Verdict, "ms"> {
  const events = parseEvents(text);
  const last = events.pop();
  expect(events.filter(({ type }) => type !== "partial-object")).toEqual([]);
  if (last?.type === "object") return { status: 200, message: "", value: last.object };
  const message = last?.type === "error" ? String(last.error) : "no last event";
  const [status = 500] = [400, 502, 503].filter((code) => expected[code]!.test(message));
  return { status, message, value: undefined };
}

const expected: Record<number, RegExp> = {
  200: /^$/,
  400: /^Invalid (schema|request body|JSON body): /,
  502: /^Model output does not match schema: /,
  503: /^Too many/,
};

interface Attack {
  readonly name: string;
  /** As JSON text where it is no value that `JSON.stringify` would make. */
  readonly schema: unknown;
  readonly says: unknown;
  readonly verdicts: readonly number[];
  readonly agent?: string;
}
const attack = (name: string, schema: unknown, says: unknown, ...verdicts: number[]): Attack => ({
  name,
  schema,
  says,
  verdicts: verdicts.length > 0 ? verdicts : [200, 400, 502],
});
const object = (properties: Json, more: Json = {}): Json => ({ type: "object", properties, ...more });
const nest = (depth: number, inner: unknown, key: string): unknown =>
  depth === 0 ? inner : { [key]: nest(depth - 1, inner, key) };
/** A schema of exactly so many bytes. */
const sized = (bytes: number): Json => ({
  type: "object",
  title: "x".repeat(bytes - '{"type":"object","title":""}'.length),
});
/** Levels of JSON, the root counted. */
const deep = (levels: number): Json => ({ type: "object", not: nest(levels - 2, { type: "string" }, "not") });
const chain = (levels: number, last: Json, pair: (next: Json) => Json): Json => {
  const defs = Array.from({ length: levels }, (_, n) => [`d${n}`, pair({ $ref: `#/$defs/d${n + 1}` })]);
  return { type: "object", $ref: "#/$defs/d0", $defs: { ...Object.fromEntries(defs), [`d${levels}`]: last } };
};
const branches = (levels: number): Json =>
  levels === 0 ? { const: 1 } : { anyOf: [branches(levels - 1), branches(levels - 1)] };

/** Each of them would hold whoever evaluates it for seconds, or for ever. */
const slow: readonly Attack[] = [
  attack("a polynomial pattern", object({ a: { pattern: "^(.*)(.*)(.*)x$" } }), { a: "a".repeat(3_000) }, 400),
  attack("an exponential pattern", object({ a: { pattern: "^(a+)+$" } }), { a: `${"a".repeat(5_000)}!` }, 400),
  attack("an ambiguous pattern", object({ a: { pattern: "^(?:a|a)*$" } }), { a: `${"a".repeat(50)}!` }, 400),
  attack(
    "patternProperties",
    { type: "object", patternProperties: { "^(a+)+$": true } },
    { [`${"a".repeat(60)}!`]: 1 },
    400,
  ),
  attack(
    "propertyNames",
    { type: "object", propertyNames: { pattern: "^(\\w*)*$" } },
    { [`${"a".repeat(60)}!`]: 1 },
    400,
  ),
  attack(
    "pairs of $ref that double",
    chain(24, { type: "object" }, (next) => ({ allOf: [next, next] })),
    {},
    400,
  ),
  attack(
    "pairs of $ref that double and fail",
    chain(24, { type: "string" }, (next) => ({ oneOf: [next, next] })),
    {},
    400,
  ),
  attack("nested $id", { type: "object", not: ids(28) }, {}, 400),
  attack(
    "uniqueItems",
    object({ a: { uniqueItems: true } }),
    { a: Array.from({ length: 8_000 }, (_, n) => ({ n })) },
    400,
  ),
];
function ids(levels: number): Json {
  return levels === 0 ? {} : { $id: `http://localhost/${levels}`, not: ids(levels - 1) };
}

/** Where a remote `$ref` would lead; nobody may ever ask it. */
const canary = createHttp((_, response) => {
  fetched++;
  response.end('{"type":"object"}');
});
let fetched = 0;

const wrongTypes: readonly [string, unknown][] = [
  ["type", 5],
  ["type", "strin"],
  ["type", []],
  ["properties", []],
  ["properties", { a: 5 }],
  ["required", "x"],
  ["required", [1]],
  ["items", 3],
  ["pattern", 3],
  ["pattern", "("],
  ["minimum", "1"],
  ["enum", {}],
  ["additionalProperties", "no"],
  ["anyOf", {}],
  ["allOf", 5],
  ["oneOf", [5]],
  ["not", 3],
  ["$ref", 5],
  ["$defs", []],
  ["minLength", -1],
  ["multipleOf", 0],
  ["uniqueItems", "yes"],
  ["patternProperties", { "(": {} }],
  ["format", 5],
  ["dependentRequired", { a: "b" }],
  ["$id", 5],
  ["maxItems", 1.5],
  ["prefixItems", {}],
];

const pollution = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}';
const proto =
  '{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"number"},"toString":true,"hasOwnProperty":true},"required":["__proto__","constructor","toString","hasOwnProperty"]}';
const tree = object({ n: { type: "number" }, children: { type: "array", items: { $ref: "#" } } });

/** Attacks that are answered at once. Where JSON Schema and the design leave no choice, there is one verdict. */
function quickAttacks(): Attack[] {
  const { port } = canary.address() as AddressInfo;
  const remote = [
    `http://127.0.0.1:${port}/a.json`,
    "file:///etc/passwd",
    "other.json",
    `//127.0.0.1:${port}/`,
    "urn:x:y",
  ];
  const nowhere = [
    "#/nothing",
    "#nothing",
    "#/__proto__",
    "#/constructor",
    "#/%zz",
    "#/properties/a/type",
    "https://github.com/cfworker",
  ];
  return [
    ...remote.map(($ref) => attack(`$ref ${$ref}`, object({ a: { $ref } }), { a: 1 }, 400)),
    ...nowhere.map(($ref) => attack(`$ref ${$ref}`, object({ a: { $ref } }), { a: 1 }, 400)),
    attack("a remote $id", { $id: `http://127.0.0.1:${port}/`, ...tree }, { children: [{ n: 1 }] }, 200),
    attack("a remote $schema", { $schema: `http://127.0.0.1:${port}/`, type: "object" }, {}, 200),
    attack(
      "a $ref to a foreign $id",
      { ...object({ a: { $ref: "#/x" } }), $id: `http://127.0.0.1:${port}/` },
      { a: 1 },
      400,
    ),
    attack("a broken $id", { type: "object", $id: "http://[" }, {}, 200, 400),
    attack("$id twice", object({ a: { $id: "x" }, b: { $id: "x" } }), {}, 200, 400),
    attack("a remote $dynamicRef", object({ a: { $dynamicRef: `http://127.0.0.1:${port}/` } }), { a: 1 }),
    attack("a remote $recursiveRef", object({ a: { $recursiveRef: `http://127.0.0.1:${port}/` } }), { a: 1 }),
    attack("$recursiveRef to itself", { type: "object", $recursiveRef: "#", $recursiveAnchor: true }, {}, 200, 400),
    attack("$ref to the root that consumes", tree, { n: 1, children: [{ children: [{ n: 2 }] }] }, 200),
    attack("$ref to the root, deep inside wrong", tree, { children: [{ children: [{ n: "2" }] }] }, 502),
    attack("$ref to itself", { type: "object", $ref: "#" }, {}, 400),
    attack("nothing but $ref to itself", { $ref: "#" }, {}, 400),
    attack("allOf itself", { type: "object", allOf: [{ $ref: "#" }] }, {}, 400),
    attack(
      "two that refer to each other",
      chain(1, { $ref: "#/$defs/d0" }, (next) => next),
      {},
      400,
    ),
    attack(
      "a chain of 30 $ref",
      chain(30, object({ a: { type: "string" } }), (next) => next),
      { a: 5 },
      502,
    ),
    attack(
      "a percent-encoded pointer",
      { ...object({ a: { $ref: "#/$defs/a%20b" } }), $defs: { "a b": { type: "string" } } },
      { a: 5 },
      502,
    ),
    attack(
      "a percent-encoded $",
      { ...object({ a: { $ref: "#/%24defs/b" } }), $defs: { b: { type: "string" } } },
      { a: 5 },
      400,
      502,
    ),
    attack(
      "an escaped pointer",
      { ...object({ a: { $ref: "#/$defs/a~1b~0" } }), $defs: { "a/b~": { type: "string" } } },
      { a: "5" },
      200,
    ),
    attack(
      "$anchor",
      { ...object({ a: { $ref: "#b" } }), $defs: { b: { $anchor: "b", type: "string" } } },
      { a: 5 },
      502,
    ),
    ...wrongTypes.map(([key, value]) =>
      attack(`${key}: ${JSON.stringify(value)}`, { type: "object", [key]: value }, {}, 400),
    ),
    ...wrongTypes
      .slice(0, 4)
      .map(([key, value]) =>
        attack(`inner ${key}: ${JSON.stringify(value)}`, object({ a: { [key]: value } }), {}, 400),
      ),
    ...["true", "false", "null", "5", '"x"', "[]"].map((schema) => attack(`schema ${schema}`, schema, {}, 400)),
    attack("no type at the root", {}, {}, 400),
    attack("a string at the root", { type: "string" }, '"x"', 400),
    attack("a union at the root", { type: ["object", "string"] }, {}, 400),
    attack("anyOf at the root", { anyOf: [{ type: "object" }, { type: "string" }] }, {}, 400),
    attack("a root that leads to a string", { $ref: "#/$defs/a", $defs: { a: { type: "string" } } }, '"x"', 400),
    attack("a root that leads to an object", { $ref: "#/$defs/a", $defs: { a: { type: "object" } } }, { a: 1 }, 200),
    attack("64 KiB less a byte", sized(65_535), {}, 200),
    attack("64 KiB", sized(65_536), {}, 200),
    attack("64 KiB and a byte", sized(65_537), {}, 400),
    attack("66 kB in 22,000 characters", { type: "object", title: "€".repeat(22_000) }, {}, 400),
    attack("1 MB", sized(1_000_000), {}, 400),
    attack("32 levels", deep(32), {}, 200, 502),
    attack("33 levels", deep(33), {}, 400),
    attack("5,000 levels", `{"type":"object","not":${'{"not":'.repeat(5_000)}{}${"}".repeat(5_000)}}`, {}, 400),
    attack("__proto__ and its like, missing", proto, "{}", 502),
    attack(
      "__proto__ and its like, wrong",
      proto,
      '{"__proto__":1,"constructor":1,"toString":1,"hasOwnProperty":1}',
      502,
    ),
    attack(
      "__proto__ and its like, there",
      proto,
      '{"__proto__":"x","constructor":1,"toString":1,"hasOwnProperty":1}',
      200,
    ),
    attack("pollution", `{"type":"object",${pollution.slice(1)}`, pollution, 200),
    attack("pollution below", `{"type":"object","properties":${pollution},"$defs":${pollution}}`, pollution),
    attack("const pollution", `{"type":"object","const":${pollution}}`, pollution, 200),
    attack("__absolute_ref__", object({ a: { $ref: "#", __absolute_ref__: { toString: 1 } } }), { a: 1 }),
    attack("__absolute_ref__ that leads out", object({ a: { $ref: "#", __absolute_ref__: "file:///etc/passwd" } }), {
      a: {},
    }),
    attack("__absolute_uri__", { type: "object", __absolute_uri__: 5, __absolute_recursive_ref__: "x" }, {}),
    attack(
      "a thenable",
      '{"type":"object","properties":{"then":{"type":"number"}},"if":{},"then":{}}',
      '{"then":1,"catch":1,"finally":1}',
      200,
    ),
    attack("toJSON", object({ toJSON: { type: "string" } }), { toJSON: "x", valueOf: 1, length: -1 }, 200),
    attack("a format called __proto__", object({ a: { format: "__proto__" } }), { a: "x" }),
    attack("an enum of 8,000", object({ a: { enum: Array.from({ length: 8_000 }, (_, n) => n) } }), { a: -1 }, 502),
    attack("a const of 60 kB", object({ a: { const: "x".repeat(60_000) } }), { a: "x" }, 502),
    attack("anyOf in anyOf", object({ a: branches(10) }), { a: 2 }, 502),
    attack(
      "anyOf of 2,000",
      object({ a: { anyOf: Array.from({ length: 2_000 }, (_, n) => ({ const: n })) } }),
      { a: -1 },
      502,
    ),
    attack("not: {}", { type: "object", not: {} }, {}, 502),
    attack("a contradiction", { type: "object", minProperties: 2, maxProperties: 1 }, { a: 1 }, 502),
    attack("false inside", object({ a: false }), { a: 1 }, 502),
    attack("numbers beyond numbers", '{"type":"object","minProperties":1e400,"multipleOf":1e-400}', {}, 400, 502),
    attack("multipleOf 1e-300", object({ a: { multipleOf: 1e-300 } }), { a: 1e300 }, 200, 502),
    attack("keys in Unicode", object({ "ключ 🔑": { type: "string" } }), { "ключ 🔑": 5 }, 502),
    attack("lone surrogates in keys", object({ "\ud800": { type: "string" } }), '{"\\ud800":5}', 400, 502),
    attack("no JSON", { type: "object" }, "{", 502),
    attack("a key of 60 kB", object({ ["x".repeat(60_000)]: { type: "string" } }), { ["x".repeat(60_000)]: 1 }, 502),
    ...[
      attack("to echo: endless items", object({ a: { type: "array", minItems: 1e9 } }, { required: ["a"] }), "x", 502),
      attack(
        "to echo: an endless text",
        object({ a: { type: "string", minLength: 1e9 } }, { required: ["a"] }),
        "x",
        502,
      ),
      attack(
        "to echo: doubling",
        chain(24, { type: "object" }, (next) => object({ a: next, b: next })),
        "x",
      ),
      attack("to echo: itself", { type: "object", properties: { a: { $ref: "#" } }, required: ["a"] }, "x", 502),
    ].map((one) => ({ ...one, agent: "echo" })),
  ];
}

const honest: readonly Attack[] = [
  attack("honest object", object({ a: { type: "string", pattern: "^b+$" } }, { required: ["a"] }), { a: "bbb" }, 200),
  attack(
    "honest array",
    { type: "array", items: { $ref: "#/$defs/n" }, $defs: { n: { type: "number" } } },
    { elements: [1, 2] },
    200,
  ),
];

function checkVerdict(
  { name, verdicts }: Attack,
  endpoint: string,
  { status, message }: Verdict,
  also: number[] = [],
): void {
  const what = `${name} (${endpoint}): ${status} ${message.slice(0, 200)}`;
  expect([...verdicts, ...also], what).toContain(status);
  expect(message, what).toMatch(expected[status]!);
  expect(message.length, what).toBeLessThan(1_000);
}

/** What one request may take of the event loop. Evaluated there, the slow ones would take seconds, or for ever. */
const mostCpuMs = 600;
const round = (number: number): number => Math.round(number * 100) / 100;

describe("Schemas of an attacker", () => {
  let host: Host;
  let attacks: readonly Attack[];
  const before = { cpu: 0, heap: 0 };
  beforeAll(async () => {
    canary.listen(0, "127.0.0.1");
    await once(canary, "listening");
    attacks = [...quickAttacks(), ...slow];
    host = await openHost();
    await askHonest(); // the first call loads the SDK
    before.cpu = await cpuOf(askHonest);
    before.heap = (await host.probe("collect")).heap;
  });
  afterAll(async () => {
    await host.close();
    canary.close();
  });

  async function askHonest(): Promise<void> {
    for (let n = 0; n < 15; n++) {
      for (const one of honest) checkVerdict(one, "object", await host.ask("object", one));
    }
  }

  /** The processor time of the event loop while this is done: what others have to wait for, on any machine. */
  async function cpuOf(act: () => Promise<unknown>): Promise<number> {
    const { cpu } = await host.probe();
    await act();
    return (await host.probe()).cpu - cpu;
  }

  it("are more than forty", () => expect(attacks.length).toBeGreaterThan(100));

  it("are answered one after another with what they deserve, and the event loop hardly works for any", async () => {
    const most = { cpu: 0, name: "" };
    let slowest = 0;
    for (const endpoint of endpoints) {
      for (const one of attacks) {
        const cpu = await cpuOf(async () => {
          const verdict = await host.ask(endpoint, one);
          checkVerdict(one, endpoint, verdict);
          slowest = Math.max(slowest, verdict.ms);
        });
        if (cpu > most.cpu) Object.assign(most, { cpu, name: `${one.name} (${endpoint})` });
      }
    }
    console.log(
      `${2 * attacks.length} one by one: at most ${round(most.cpu)} ms of the loop: ${most.name}; slowest ${round(slowest)} ms`,
    );
    expect(most.cpu, most.name).toBeLessThan(mostCpuMs);
  });

  it("are answered 80 at once, and honest requests among them succeed", async () => {
    const evil = [...slow, ...attacks.filter((_, index) => index % 3 === 0)].slice(0, 40);
    const asked = endpoints.flatMap((endpoint) => evil.map((one) => ({ endpoint, one })));
    for (let at = 0; at < asked.length; at += 10) {
      for (const endpoint of endpoints) asked.splice(at, 0, ...honest.map((one) => ({ endpoint, one })));
    }
    const innocent = asked.map(({ endpoint }, index) => ({ endpoint, one: honest[index % honest.length]! }));
    const send = async (all: typeof asked): Promise<{ cpu: number; slowest: number; refused: number }> => {
      let [slowest, refused] = [0, 0];
      const answer = async ({ endpoint, one }: (typeof asked)[number]): Promise<void> => {
        const isHonest = honest.includes(one);
        // A check may get no processor time while others have it: then the request is refused, and may be sent again.
        const verdict = await host.askOnce(endpoint, one);
        checkVerdict(one, endpoint, verdict, isHonest ? [503] : [400, 503]);
        slowest = Math.max(slowest, verdict.ms);
        if (!isHonest || verdict.status !== 503) return;
        refused++;
        checkVerdict(one, endpoint, await host.ask(endpoint, one));
      };
      const cpu = await cpuOf(() => Promise.all(all.map(answer)));
      return { cpu, slowest, refused: refused / all.filter(({ one }) => honest.includes(one)).length };
    };
    for (let n = 0; n < bySize(1, 5); n++) {
      const control = await send(innocent);
      const attacked = await send(asked);
      const show = ({ cpu, slowest, refused }: typeof control): string =>
        `${round(cpu)} ms of the loop, slowest ${round(slowest)} ms, ${round(100 * refused)} % of the honest ones refused`;
      console.log(`${asked.length} at once: ${show(attacked)}; as many honest ones: ${show(control)}`);
      expect(asked.length).toBeGreaterThanOrEqual(80);
      expect(attacked.slowest).toBeLessThan(10_000 + 10 * control.slowest);
      expect(attacked.cpu).toBeLessThan(3 * control.cpu + mostCpuMs);
      // Were honest requests to wait behind the slow ones, nearly all would be refused.
      expect(attacked.refused).toBeLessThan(0.5 + control.refused / 2);
    }
  });

  it("leave nothing behind: no prototype changed, nothing fetched, memory, threads and work as before", async () => {
    const after = await cpuOf(askHonest);
    const { polluted, heap } = await host.probe("collect");
    const size = host.size();
    console.log(
      `afterwards: honest ${round(after)} ms (before ${round(before.cpu)}), heap ${round((heap - before.heap) / 1e6)} MB more, ${JSON.stringify(size)}`,
    );
    expect(polluted).toBe(false);
    expect(fetched).toBe(0);
    expect(after).toBeLessThan(2 * before.cpu + 50);
    expect(heap - before.heap).toBeLessThan(30e6);
    if (size) expect(size.threads).toBeLessThanOrEqual(16);
    if (size) expect(size.rss).toBeLessThan(600e6);
  });
});

describe("One request does not stop the server", () => {
  async function withHost(test: (host: Host) => Promise<void>, limits: Json = {}): Promise<void> {
    const host = await openHost(limits);
    try {
      for (const one of honest) checkVerdict(one, "object", await host.ask("object", one));
      await test(host);
      for (const one of honest) checkVerdict(one, "object", await host.ask("object", one));
    } finally {
      await host.close();
    }
  }
  const aaa = { a: "aaaaaaaaaa" };

  it("with a pattern that overruns the stack of the regular expression compiler", () =>
    withHost(async (host) => {
      const one = attack("a long pattern", object({ a: { pattern: `${"a*".repeat(30_000)}b` } }), aaa, 400);
      for (const endpoint of endpoints) checkVerdict(one, endpoint, await host.ask(endpoint, one));
    }));

  it("with a pattern that is first compiled deep inside a value", () =>
    withHost(async (host) => {
      const schema = object({ a: { $ref: "#" }, b: { pattern: `${"a*".repeat(4_000)}b` } });
      for (let depth = 500; depth <= 3_500; depth += 500) {
        const says = `${'{"a":'.repeat(depth)}{"b":"aa"}${"}".repeat(depth)}`;
        const one = attack(`a pattern ${depth} levels deep`, schema, says, 400, 502);
        checkVerdict(one, "object", await host.ask("object", one));
      }
    }));

  it("with errors that fill the memory", () =>
    withHost(
      async (host) => {
        for (const length of [300, 3_000, 30_000, 60_000]) {
          const schema = object({ a: { contains: { enum: ["x".repeat(length)] } } });
          const one = attack(
            `errors of ${length} bytes`,
            schema,
            { a: Array.from({ length: 50_000 }, () => 0) },
            400,
            502,
          );
          checkVerdict(one, "object", await host.ask("object", one));
        }
      },
      { schemaMs: 1_500 }, // so that the memory ends before the time, however slow the machine
    ));

  it("with patterns whose compilation nobody can interrupt: threads stay few, answers come", () =>
    withHost(async (host) => {
      const one = attack("a pattern", object({ a: { pattern: "\\p{L}".repeat(10_000) } }), aaa, 400, 502, 503);
      let most = 0;
      let rss = 0;
      const watch = setInterval(() => {
        const size = host.size();
        most = Math.max(most, size?.threads ?? 0);
        rss = Math.max(rss, size?.rss ?? 0);
      }, 20);
      const answers = await Promise.all(Array.from({ length: 20 }, () => host.askOnce("object", one)));
      clearInterval(watch);
      for (const answer of answers) checkVerdict(one, "object", answer);
      console.log(
        `20 such patterns: ${most} threads, ${round(rss / 1e6)} MB, ${round(Math.max(...answers.map(({ ms }) => ms)))} ms`,
      );
      expect(most).toBeLessThanOrEqual(20);
      expect(rss).toBeLessThan(800e6);
    }));

  it.each(endpoints)("with an answer nested so deep that it cannot be written again (%s)", (endpoint) =>
    withHost(async (host) => {
      const says = `${'{"a":'.repeat(20_000)}1${"}".repeat(20_000)}`;
      const one = attack("a deep answer", { type: "object" }, says, 200, 502);
      checkVerdict(one, endpoint, await host.ask(endpoint, one));
    }),
  );

  it("with braces that echoModel takes for JSON", () =>
    withHost(async (host) => {
      const one: Attack = { ...attack("braces", { type: "object" }, "{".repeat(50_000), 200), agent: "echo" };
      const { cpu } = await host.probe();
      checkVerdict(one, "object", await host.ask("object", one));
      expect((await host.probe()).cpu - cpu).toBeLessThan(1_000);
    }));
});

// What the model says next, and what it was asked for.
let next = "";
const model = scriptedModel(Array.from({ length: 100_000 }, () => () => next));
const wanted = (): Json => (model.calls.at(-1)!.responseFormat as { schema: Json }).schema;

describeServer(
  "Schemas that somebody means",
  { only: ["start"], config: { agents: [defineAgent({ id: "says", model, instructions: "" })] } },
  (server) => {
    const ask = (endpoint: string, schema: unknown, says: unknown): Promise<Omit<Verdict, "ms">> =>
      untilChecked(async () => {
        next = JSON.stringify(says);
        const { status, text } = await server.post(`/agents/says/${endpoint}`, { input: "go", schema });
        return status === 200 && endpoint === "stream-object" ? ofStream(text) : ofBody(status, text);
      });

    it("the verdict is the oracle's, the object is what the model said, and the model is asked for an object", async () => {
      let [matched, missed] = [0, 0];
      const runs = fc.asyncProperty(meant, fc.constantFrom(...endpoints), async ({ schema, value }, endpoint) => {
        const isArray = schema["type"] === "array";
        const fits = accepts(schema, value, schema);
        fits ? matched++ : missed++;
        const { status, value: got, message } = await ask(endpoint, schema, isArray ? { elements: value } : value);
        expect(status, message).toBe(fits ? 200 : 502);
        if (fits) expect(JSON.stringify(got)).toBe(JSON.stringify(value));
        expect(wanted()).toMatchObject({ type: "object" });
        const told = wanted();
        expect(accepts(told, isArray ? { elements: value } : value, told), "what the model was told").toBe(fits);
      });
      await fc.assert(runs, { numRuns: bySize(150, 2_000) });
      console.log(`${matched} matched, ${missed} did not`);
      expect(Math.min(matched, missed)).toBeGreaterThan(bySize(20, 300));
    });

    const numbers = { type: "number" };
    it.each<[string, Json, unknown, unknown]>([
      ["$defs", { type: "array", items: { $ref: "#/$defs/n" }, $defs: { n: numbers } }, [1], ["1"]],
      ["definitions", { type: "array", items: { $ref: "#/definitions/n" }, definitions: { n: numbers } }, [1], ["1"]],
      ["itself", { type: "array", items: { $ref: "#" } }, [[], [[]]], [[], [1]]],
      ["its own items", { type: "array", prefixItems: [numbers, { $ref: "#/prefixItems/0" }] }, [1, 2], [1, "2"]],
      [
        "itself from $defs",
        { type: "array", items: { $ref: "#/$defs/l" }, $defs: { l: object({ a: { $ref: "#" } }) } },
        [{ a: [{}] }],
        [{ a: [1] }],
      ],
      ["an $anchor", { type: "array", items: { $ref: "#n" }, $defs: { n: { $anchor: "n", ...numbers } } }, [1], ["1"]],
      [
        "a literal that looks like one",
        { type: "array", items: { const: { $ref: "#" } } },
        [{ $ref: "#" }],
        [{ $ref: "#/properties/elements" }],
      ],
      ["a root that is one", { $ref: "#/$defs/l", $defs: { l: { type: "array", items: numbers } } }, [1], ["1"]],
    ])("a root array with a reference: %s", async (_, schema, good, bad) => {
      for (const endpoint of endpoints) {
        expect(await ask(endpoint, schema, { elements: good })).toMatchObject({ status: 200, value: good });
        expect(await ask(endpoint, schema, { elements: bad })).toMatchObject({ status: 502 });
      }
      const told = wanted();
      expect(told["type"]).toBe("object");
      const verdicts = [good, bad].map((elements) => accepts(told, { elements }, told));
      expect(verdicts, `what the model was told: ${JSON.stringify(told)}`).toEqual([true, false]);
    });

    it("a root that refers to an object is an object for the model, too", async () => {
      const schema = { $ref: "#/$defs/a", $defs: { a: object({ n: numbers }) } };
      expect(await ask("object", schema, { n: 1 })).toMatchObject({ status: 200, value: { n: 1 } });
      expect(wanted()["type"]).toBe("object");
    });

    it("a $dynamicRef is followed or refused, not passed over", async () => {
      const schema = { ...object({ a: { $dynamicRef: "#t" } }), $defs: { t: { $dynamicAnchor: "t", type: "string" } } };
      expect([400, 502]).toContain((await ask("object", schema, { a: 5 })).status);
    });

    it("a key that is half a character is refused: it cannot be checked", async () => {
      const schema = { type: "object", additionalProperties: { type: "string" } };
      expect(await ask("object", schema, { "\ud800": "x" })).toMatchObject({ status: 502 });
    });
  },
);

const keys = ["a", "b", "id", "then", "$ref", "type", "__proto__", "constructor"];
const texts = fc.oneof(fc.constantFrom("", "a", "🔑", "ab", "\u0000"), fc.string({ maxLength: 4, unit: "grapheme" }));
const scalars = fc.oneof(
  texts,
  fc.integer({ min: -5, max: 5 }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  fc.constant(null),
);
const small = fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined });
const plain = (schema: Json): Json => JSON.parse(JSON.stringify(schema)) as Json; // without what is undefined

const {
  any: anySchema,
  list: listSchema,
  record: recordSchema,
} = fc.letrec<{ any: Json; list: Json; record: Json }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.record({ type: fc.constant("string"), minLength: small, maxLength: small }).map(plain),
    fc.record({ type: fc.constantFrom("number", "integer"), minimum: small, maximum: small }).map(plain),
    fc.record({ type: fc.constantFrom("boolean", "null") }),
    fc
      .array(scalars, { minLength: 1, maxLength: 3 })
      .map((list) => ({ enum: JSON.parse(JSON.stringify(list)) as unknown })),
    tie("list"),
    tie("record"),
  ),
  list: fc.record({ type: fc.constant("array"), items: tie("any"), minItems: small, maxItems: small }).map(plain),
  record: fc
    .record({
      entries: fc.uniqueArray(fc.tuple(fc.constantFrom(...keys), tie("any")), {
        maxLength: 4,
        selector: ([key]) => key,
      }),
      required: fc.uniqueArray(fc.constantFrom(...keys), { maxLength: 2 }),
      closed: fc.boolean(),
    })
    .map(({ entries, required, closed }) => ({
      type: "object",
      properties: Object.fromEntries(entries),
      required,
      ...(closed && { additionalProperties: false }),
    })),
}));

/** Mostly what the schema asks for, and now and then something else. */
function valueFor(schema: Json): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 9, arbitrary: fitting(schema) }, { weight: 1, arbitrary: scalars });
}
function fitting(schema: Json): fc.Arbitrary<unknown> {
  if (Array.isArray(schema["enum"])) return fc.constantFrom(...(schema["enum"] as unknown[]));
  switch (schema["type"]) {
    case "string":
      return texts;
    case "number":
    case "integer":
      return fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constant(1.5));
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array":
      return fc.array(valueFor(schema["items"] as Json), { maxLength: 3 });
    default: {
      const properties = Object.entries(schema["properties"] as Record<string, Json>);
      const required = (schema["required"] as string[]).filter(
        (key) => !Object.hasOwn(schema["properties"] as Json, key),
      );
      const all = [
        ...properties.map(([key, inner]) => fc.tuple(fc.constant(key), valueFor(inner))),
        ...required.map((key) => fc.tuple(fc.constant(key), scalars)),
      ];
      const kept = fc.oneof({ weight: 5, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.boolean() });
      return fc
        .tuple(fc.tuple(...all), fc.array(kept, { minLength: all.length, maxLength: all.length }))
        .map(([entries, keep]) => Object.fromEntries(entries.filter((_, index) => keep[index])));
    }
  }
}
const meant = fc
  .oneof(listSchema, recordSchema)
  .chain((schema) => fitting(schema).map((value) => ({ schema, value: JSON.parse(JSON.stringify(value)) as unknown })));
void anySchema;

/** The part of JSON Schema that these tests use, by hand. */
function accepts(schema: Json, value: unknown, root: Json): boolean {
  const asked: Record<string, () => boolean> = {
    $ref: () => accepts(follow(root, String(schema["$ref"])), value, root),
    type: () => isOf(String(schema["type"]), value),
    enum: () => (schema["enum"] as unknown[]).some((one) => JSON.stringify(one) === JSON.stringify(value)),
    const: () => JSON.stringify(schema["const"]) === JSON.stringify(value),
    minLength: () => typeof value !== "string" || [...value].length >= Number(schema["minLength"]),
    maxLength: () => typeof value !== "string" || [...value].length <= Number(schema["maxLength"]),
    minimum: () => typeof value !== "number" || value >= Number(schema["minimum"]),
    maximum: () => typeof value !== "number" || value <= Number(schema["maximum"]),
    minItems: () => !Array.isArray(value) || value.length >= Number(schema["minItems"]),
    maxItems: () => !Array.isArray(value) || value.length <= Number(schema["maxItems"]),
    items: () => !Array.isArray(value) || value.every((one) => accepts(schema["items"] as Json, one, root)),
    prefixItems: () =>
      !Array.isArray(value) ||
      (schema["prefixItems"] as Json[]).every(
        (one, index) => index >= value.length || accepts(one, value[index], root),
      ),
    required: () =>
      !isOf("object", value) || (schema["required"] as string[]).every((key) => Object.hasOwn(value as Json, key)),
    properties: () =>
      !isOf("object", value) ||
      Object.entries(schema["properties"] as Record<string, Json>).every(
        ([key, inner]) => !Object.hasOwn(value as Json, key) || accepts(inner, (value as Json)[key], root),
      ),
    additionalProperties: () =>
      !isOf("object", value) ||
      schema["additionalProperties"] !== false ||
      Object.keys(value as Json).every((key) => Object.hasOwn(schema["properties"] as Json, key)),
  };
  return Object.keys(schema).every((keyword) => !Object.hasOwn(asked, keyword) || asked[keyword]!());
}

function isOf(type: string, value: unknown): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "array") return Array.isArray(value);
  if (type === "null") return value === null;
  return typeof value === type && value !== null && !Array.isArray(value);
}

/** Where a local reference leads; throws where it leads nowhere. */
function follow(root: Json, ref: string): Json {
  if (!ref.startsWith("#/") && ref !== "#") {
    const found = Object.values((root["$defs"] ?? {}) as Record<string, Json>).find(
      (one) => `#${String(one["$anchor"])}` === ref,
    );
    if (!found) throw new Error(`${ref} leads nowhere`);
    return found;
  }
  let at: unknown = root;
  for (const key of ref.split("/").slice(1)) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) throw new Error(`${ref} leads nowhere`);
    at = (at as Json)[key];
  }
  return at as Json;
}
