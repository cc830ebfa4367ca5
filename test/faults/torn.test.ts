import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { andAll, andThen, defineWorkflow, embedded } from "agentserve";
import fc from "fast-check";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toProject } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";
import { agentserve } from "../harness/cli.ts";
import { createClient, parseEvents, type Answer, type Client, type Init } from "../harness/client.ts";
import { createGates } from "../harness/gates.ts";
import { createProject } from "../harness/project.ts";
import { createTestLogger } from "../harness/server.ts";
import { seed } from "../harness/seed.ts";
import { bySize } from "../harness/size.ts";
import { patienceMs } from "../harness/patience.ts";

const folder = mkdtempSync(join(tmpdir(), "agentserve-torn-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// The executions.

const gates = createGates();
/** How often each step ran since the file was opened, by idempotency key. */
const ran = new Map<string, number>();
const pad = "x".repeat(900);

/** A step that counts itself. */
const step = <T>(id: string, execute: (data: any, executionId: string) => T) => ({
  id,
  execute({ data, executionId, idempotencyKey }: { data: any; executionId: string; idempotencyKey: string }): T {
    count(idempotencyKey);
    return execute(data, executionId);
  },
});
function count(key: string): void {
  ran.set(key, (ran.get(key) ?? 0) + 1);
}

const input = v.object({ n: v.number() });
const sum = defineWorkflow({ id: "sum", input })
  .andThen(step("double", ({ n }) => n * 2))
  .andAll({ id: "all", steps: [andThen(step("plus", (n) => n + 1)), andThen(step("pad", () => pad))] })
  .andThen(step("total", ([n, text]) => ({ n, length: text.length })));
const ask = defineWorkflow({ id: "ask", input, resumeSchema: v.object({ approved: v.boolean() }) })
  .andThen(step("prepare", ({ n }) => n))
  .andThen({
    id: "person",
    execute({ data, idempotencyKey, resumeData, suspend }) {
      count(idempotencyKey);
      return resumeData ? { n: data, ...resumeData } : suspend("Approve?");
    },
  })
  .andThen(step("finish", (data) => data));
const broken = defineWorkflow({ id: "broken", input })
  .andThen(step("prepare", ({ n }) => n))
  .andThen(
    step("breaks", () => {
      throw new Error("a detail that nobody may see");
    }),
  );
const gated = defineWorkflow({ id: "gated", input })
  .andThen(step("first", ({ n }) => n))
  .andAll({
    id: "all",
    steps: [
      andThen(step("beside", (n) => n)),
      andAll({ id: "inner", steps: [andThen(step("second", (_, id) => gates.pass(id).then(() => "second")))] }),
    ],
  })
  .andThen(step("third", (data) => data));
const workflows = [sum, ask, broken, gated];

/** What a whole run of a workflow returns; a broken one returns nothing. */
const results: Record<string, (n: number) => unknown> = {
  sum: (n) => ({ n: n * 2 + 1, length: pad.length }),
  ask: (n) => ({ n, approved: true }),
  gated: (n) => [n, ["second"]],
};
const kinds = ["sum", "ask", "ask.resumed", "broken", "gated", "gated.suspended", "gated.cancelled"];
interface Begun {
  readonly id: string;
  readonly n: number;
  readonly workflow: string;
}
const toBegun = (kind: string, n: number): Begun => ({ id: `e${n}.${kind}`, n, workflow: kind.split(".")[0]! });

async function make({ post }: Client, { id, n, workflow }: Begun): Promise<void> {
  const path = `/workflows/${workflow}/executions/${id}`;
  const headers: Record<string, string> = workflow === "gated" ? { prefer: "respond-async" } : {};
  await post(`/workflows/${workflow}/execute`, { input: { n }, options: { executionId: id } }, { headers });
  if (workflow === "gated") await gates.reached(id);
  if (id.endsWith(".resumed")) await post(`${path}/resume`, { resumeData: { approved: true } });
  if (id.endsWith(".suspended")) await post(`${path}/suspend`, {});
  if (id.endsWith(".cancelled")) await post(`${path}/cancel`, {});
}

// The server, in process.

type Server = ReturnType<typeof open>;
function open(file: string) {
  const config = { workflows, backend: embedded({ path: file }), server: { limits: { drainMs: 50 } } };
  return openServer(toProject(config), { mode: "start", logger: createTestLogger([]) });
}
/** The server that is being asked. */
let server: Server;
const send = (path: string, init: RequestInit) => server.fetch(new Request(`http://localhost${path}`, init));
/** Checks every answer against `/doc`. */
let client: Client;

/** A file as it was while a server had it open, and what it said. */
interface Template {
  readonly db: Buffer;
  readonly wal: Buffer;
  readonly begun: readonly Begun[];
  /** What each execution had written by then. */
  readonly events: Map<string, any[]>;
}
/** The same, after the server left: all of it stands in the main file. */
let closed: Template;
const templates: Record<number, Template> = {};

beforeAll(async () => {
  server = open(":memory:");
  client = createClient(send, (await (await send("/doc", {})).json()) as never);
  await server.close();
  for (const pageBytes of [512, 4096]) templates[pageBytes] = await build(pageBytes);
  for (const { id } of templates[512]!.begun) gates.open(id); // for good: the servers that made the files are gone
  for (const template of Object.values(templates)) await learn(template);
  const { begun, events } = templates[4096]!;
  const file = write(templates[4096]!);
  const database = new DatabaseSync(file);
  database.exec("pragma wal_checkpoint(truncate)");
  database.close();
  closed = { db: readFileSync(file), wal: Buffer.alloc(0), begun, events };
});

/** Half of it stands in the main file, the other half in the log. */
async function build(pageBytes: number): Promise<Template> {
  const file = join(folder, `${pageBytes}.db`);
  const rounds = bySize(3, 6);
  const begun = Array.from({ length: rounds * kinds.length }, (_, n) => toBegun(kinds[n % kinds.length]!, n));
  const half = Math.floor(begun.length / 2);
  server = open(file);
  await client.get("/workflows");
  await server.close();
  const database = new DatabaseSync(file);
  database.exec(`pragma journal_mode = delete; pragma page_size = ${pageBytes}; vacuum`);
  database.close();
  server = open(file);
  for (const one of begun.slice(0, half)) await make(client, one);
  await server.close();
  server = open(file);
  for (const one of begun.slice(half)) await make(client, one);
  const template = { db: readFileSync(file), wal: readFileSync(`${file}-wal`), begun, events: new Map() };
  await server.close();
  expect(template.wal.readUInt32BE(8), "size of a page").toBe(pageBytes);
  return template;
}

let copies = 0;
function write({ db, wal }: Pick<Template, "db" | "wal">): string {
  const copy = join(folder, String(copies++));
  mkdirSync(copy);
  const file = join(copy, "data.db");
  writeFileSync(file, db);
  if (wal.length > 0) writeFileSync(`${file}-wal`, wal);
  return file;
}

/** Opens the whole file and remembers what was in it. */
async function learn(template: Template): Promise<void> {
  const openedAt = await nextMoment();
  server = open(write(template));
  const found = await lookAt(template.begun, client.request);
  await server.close();
  expect(found.map(({ id }) => id)).toEqual(template.begun.map(({ id }) => id));
  for (const { id, events, opened } of found) {
    template.events.set(id, events.filter(isOld(openedAt)));
    const status = statusOf(id);
    expect(status === "running" ? [status, "completed"] : [status], id).toContain(opened.status); // it continues at once
  }
}
const statuses = { suspended: "suspended", cancelled: "error", resumed: "completed" };
const whole = { sum: "completed", ask: "suspended", broken: "error", gated: "running" };
const statusOf = (id: string): string => ({ ...whole, ...statuses })[id.split(".").at(-1)!]!;

/** What is written from now on has another time than what is written. */
async function nextMoment(): Promise<number> {
  const now = Date.now();
  while (Date.now() === now) await sleep(1);
  return Date.now();
}
const isOld =
  (openedAt: number) =>
  ({ seq, timestamp }: { seq?: number; timestamp: string }): boolean =>
    seq !== undefined && Date.parse(timestamp) < openedAt;

// What a file shows.

interface Found extends Begun {
  /** As the list had it when the file was opened. */
  readonly opened: any;
  /** All that it wrote until it suspended or ended. */
  readonly events: any[];
  /** All, after a resume where that was called for. */
  readonly all: any[];
  readonly final: any;
}

type Ask = (path: string, init: Init) => Promise<Pick<Answer, "status" | "body" | "events">>;

/** Looks at every execution, lets it run to its end, resumes it where it waits. */
async function lookAt(begun: readonly Begun[], request: Ask): Promise<Found[]> {
  ran.clear();
  const found: Omit<Found, "final">[] = [];
  const states = await list(request);
  for (const one of begun) {
    const opened = states.get(one.id);
    if (!opened) continue;
    const path = `/workflows/${one.workflow}/executions/${one.id}`;
    const { events } = await request(`${path}/stream`, {});
    let all = events;
    if (events.at(-1)?.status === "suspended") {
      const resumeData = one.workflow === "ask" ? { approved: true } : undefined;
      await request(`${path}/resume`, { method: "POST", json: { resumeData } });
      ({ events: all } = await request(`${path}/stream`, {}));
    }
    found.push({ ...one, opened, events, all });
  }
  const finals = await list(request);
  return found.map((one) => ({ ...one, final: finals.get(one.id) }));
}

async function list(request: Ask): Promise<Map<string, any>> {
  const states = new Map<string, any>();
  for (const { id } of workflows) {
    const { body } = await request(`/workflows/${id}/executions?limit=200`, {});
    for (const state of body?.data?.items ?? []) states.set(state.executionId, state);
  }
  return states;
}

/** Asks without a look at `/doc`, which costs more than the answer. What is not a 200 in time is a problem. */
const askQuickly =
  (problems: string[]): Ask =>
  async (path, { json, method = "GET" }) => {
    if (problems.some(isSilence)) return { status: 0, body: undefined, events: [] };
    const init = json ? { body: JSON.stringify(json), headers: { "content-type": "application/json" } } : {};
    const leaving = new AbortController();
    const response = send(path, { method, ...init, signal: leaving.signal });
    const text = await inTime(
      patienceMs,
      response.then((answer) => answer.text()),
    ).catch((error: unknown) => {
      if (!(error instanceof Late)) throw error;
      leaving.abort();
    });
    if (text === undefined) {
      problems.push(`no answer to ${method} ${path}`);
      return { status: 0, body: undefined, events: [] };
    }
    const { status, headers } = await response;
    if (headers.get("content-type") === "text/event-stream")
      return { status, body: undefined, events: parseEvents(text) };
    const body = JSON.parse(text);
    if (status !== 200) {
      const { executionId: _, ...error } = body;
      expect(error, path).toEqual({ success: false, error: expect.any(String) });
      problems.push(`${status} ${body.error}`);
    }
    return { status, body, events: [] };
  };

const isSilence = (problem: string): boolean => problem.startsWith("no answer");

class Late extends Error {}
function inTime<T>(ms: number, promise: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Late(`Nothing came within ${ms} ms`)), ms);
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** What was written is as it was, and did not run again; the rest ran once, to the right end. */
function judge({ begun, events: known }: Template, found: readonly Found[], openedAt: number): void {
  const ids = found.map(({ id }) => id);
  expect(ids, "those that began first").toEqual(begun.slice(0, ids.length).map(({ id }) => id));
  for (const { id, n, workflow, opened, events, all, final } of found) {
    const old = events.filter(isOld(openedAt));
    expect(old, id).toEqual(known.get(id)!.slice(0, old.length));
    const seqs = all.slice(0, -1).map(({ seq }) => seq);
    expect(seqs, id).toEqual(seqs.map((_, index) => index + 1));
    expect(all.slice(0, old.length), id).toEqual(old);
    expect(all.at(-1), id).toMatchObject({ type: "workflow-result", status: final.status });
    const closings: Record<string, string> = {
      "workflow-complete": "completed",
      "workflow-suspended": "suspended",
      "workflow-error": "error",
    };
    expect(closings[all.at(-2).type], id).toBe(final.status);
    const closing = closings[old.at(-1).type];
    const isOver = closing === "completed" || closing === "error";
    if (isOver) expect(opened.status, id).toBe(closing);
    const runs = [...ran].filter(([key]) => key.startsWith(`${id}/`));
    for (const { type, from } of old)
      if (type === "step-complete") expect(ran.has(`${id}/${from}`), `${id} ran ${from} again`).toBe(false);
    // A step that asks runs twice in all: up to the question, and with the answer.
    const asked = old.some(({ type }) => type === "workflow-suspended");
    for (const [key, times] of runs) expect(times, key).toBeLessThanOrEqual(key.endsWith("/person") && !asked ? 2 : 1);
    if (isOver) expect(runs, id).toEqual([]);
    if (final.cancellation) expect([id, opened.status]).toEqual([expect.stringContaining(".cancelled"), "error"]);
    else if (workflow === "broken") expect(final, id).toMatchObject({ status: "error" });
    else expect(final, id).toMatchObject({ status: "completed", result: results[workflow]!(n) });
  }
}

/** Opens a changed copy with the server and looks at it; or it is refused, and the refusal names the file. */
async function withFile(
  changed: Pick<Template, "db" | "wal">,
  use: (openedAt: number) => Promise<string>,
): Promise<string> {
  const openedAt = await nextMoment();
  const file = write(changed);
  server = open(file);
  const refusal = await refusalOf();
  let outcome = "refused";
  if (refusal === undefined) outcome = await use(openedAt);
  else if (!refusal.includes(file) || refusal.includes("\n")) outcome = `refused, unclear: ${refusal}`;
  const closing = await server.close().then(
    () => "",
    (error: unknown) => `, cannot be closed: ${(error as Error).message}`,
  );
  rmSync(join(file, ".."), { recursive: true });
  return outcome + closing;
}
const isUnclear = (outcome: string): boolean => outcome.startsWith("refused, ");

/** With a damaged log: the file is as good as it ever was. Says how many events it has kept. */
const tryLog = (template: Template, wal: Buffer): Promise<string> =>
  withFile({ db: template.db, wal }, async (openedAt) => {
    const problems: string[] = [];
    const found = await lookAt(template.begun, askQuickly(problems));
    expect(problems).toEqual([]);
    judge(template, found, openedAt);
    return String(found.flatMap(({ events }) => events.filter(isOld(openedAt))).length);
  });

/** What it says when it does not open. */
function refusalOf(): Promise<string | undefined> {
  return inTime(patienceMs, send("/workflows", {})).then(
    () => undefined,
    (reason: unknown) => {
      if (reason instanceof Late) throw reason;
      return (reason as Error).message;
    },
  );
}

/** The outcome of each variant, in the order of the places in the file that they change. */
async function each(places: readonly number[], run: (place: number) => Promise<string>): Promise<string[]> {
  const outcomes: string[] = [];
  for (const place of places.toSorted((a, b) => a - b)) {
    const outcome = run(place).catch((error: unknown) => {
      throw new Error(`${place} (SEED=${seed}): ${(error as Error).message}`, { cause: error });
    });
    outcomes.push(await outcome);
  }
  return outcomes;
}
const toTally = (outcomes: readonly string[]): Record<string, number> =>
  Object.fromEntries([...new Set(outcomes)].map((one) => [one, outcomes.filter((other) => other === one).length]));

/** The further behind the damage stands, the more is kept. */
function expectMoreAndMore(outcomes: readonly string[], moments: number): void {
  expect(outcomes.filter(isUnclear)).toEqual([]);
  const kept = outcomes.filter((outcome) => outcome !== "refused").map(Number);
  expect(kept).toEqual(kept.toSorted((a, b) => a - b));
  expect(new Set(kept).size, "it was cut at different moments").toBeGreaterThanOrEqual(moments);
}

function flip(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[bit >> 3]! ^= 1 << (bit & 7);
  return copy;
}
const bits = (bytes: Buffer, many: number): number[] =>
  fc.sample(fc.noBias(fc.nat(bytes.length * 8 - 1)), { seed, numRuns: many });

const timeout = bySize(300_000, 1_800_000);

describe.each([512, 4096])("a write-ahead log with pages of %i bytes", (pageBytes) => {
  it(
    "a write-ahead log may be cut at any of its last 4096 bytes, and where a page ends: the file is as it was at some moment before",
    async () => {
      const template = templates[pageBytes]!;
      const { wal, events } = template;
      const every = bySize(2, 1) * (pageBytes + 24);
      const boundaries = Array.from({ length: bySize(8, 60) }, (_, n) => wal.length - n * every);
      const cuts = new Set(boundaries.flatMap((at) => [at - 1, at, at + 1]).filter((at) => at <= wal.length));
      for (let back = 1; back <= 4096; back += bySize(pageBytes === 512 ? 256 : 1_024, 1)) cuts.add(wal.length - back);
      const outcomes = await each([...cuts], (cut) => tryLog(template, wal.subarray(0, cut)));
      console.log(`${cuts.size} cuts, by the number of events that are left:`, toTally(outcomes));
      expectMoreAndMore(outcomes, 3);
      expect(outcomes.at(-1), "the whole log").toBe(String([...events.values()].flat().length));
    },
    timeout,
  );
});

it(
  "a write-ahead log with a flipped bit is read up to there",
  async () => {
    const template = templates[512]!;
    const { wal } = template;
    const header = Array.from({ length: bySize(8, 32) }, (_, n) => n * bySize(4, 1)).map((at) => at * 8 + (at % 8));
    const flips = [...header, ...bits(wal, bySize(10, 500))];
    const outcomes = await each(flips, (bit) => tryLog(template, flip(wal, bit)));
    const moments = new Set(outcomes).size;
    console.log(`${flips.length} flips in the log, seed ${seed}: ${moments} different moments`);
    expectMoreAndMore(outcomes, bySize(5, 10));
  },
  timeout,
);

it(
  "a flipped bit in the main file ends no process and hangs no request",
  async () => {
    const { db } = closed;
    // The header and the beginning of every page, where its structure stands, then anywhere.
    const header = bits(db.subarray(0, 100), bySize(5, 100));
    const pages = bits(Buffer.alloc((db.length / 4096) * 12), bySize(5, 150)).map((bit) => {
      const page = Math.floor(bit / 96);
      return page * 4096 * 8 + (page === 0 ? 800 : 0) + (bit % 96);
    });
    const anywhere = bits(db, bySize(8, 500));
    const all: string[] = [];
    for (const [where, flips] of Object.entries({ header, pages, anywhere })) {
      const outcomes = await each(flips, tryFlip);
      console.log(`${flips.length} flips in the main file (${where}), seed ${seed}:`, toTally(outcomes));
      all.push(...outcomes);
    }
    expect.soft(all.filter(isSilence)).toEqual([]);
    expect.soft(all.filter(isUnclear)).toEqual([]);
  },
  timeout,
);

/** SQLite has no checksums there: what is flipped may be seen or not. */
const tryFlip = (bit: number): Promise<string> =>
  withFile({ db: flip(closed.db, bit), wal: closed.wal }, async (openedAt) => {
    const problems: string[] = [];
    const found = await lookAt(closed.begun, askQuickly(problems));
    expect((await send("/doc", {})).status, "what needs no file").toBe(200);
    // A flip in the header may make the file read-only. Then what runs waits for better days, and so do its readers.
    if (problems.some((problem) => problem.startsWith("503 "))) return "cannot be written";
    if (problems.length > 0) return problems.find(isSilence) ?? "an error was answered";
    try {
      judge(closed, found, openedAt);
    } catch {
      return "accepted, with something wrong";
    }
    return found.length === closed.begun.length ? "accepted, all is right" : "accepted, something is missing";
  });

describe("agentserve start", () => {
  const config = `import { defineConfig } from "agentserve";\nexport default defineConfig({ server: { port: 0 } });\n`;
  const start = (prepare: (file: string) => void) => {
    const project = createProject({ "agents.config.ts": config });
    const file = join(project, "data.db");
    prepare(file);
    return { file, child: agentserve(["start", "--data", file], { cwd: project }) };
  };
  /** One line that names the file and says this, and perhaps one that says what to do. */
  async function expectRefusal(prepare: (file: string) => void, says: RegExp): Promise<string> {
    const { file, child } = start(prepare);
    const serves = child.waitFor(/http:\/\/\S+/).then(() => "it serves");
    serves.catch(() => {}); // it ended first
    expect(await Promise.race([child.ended.then(() => "it ended"), serves])).toBe("it ended");
    const { code, stderr } = await child.ended;
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^error [^\n]+\n(hint  [^\n]+\n)?$/)]);
    expect(stderr.split("\n")[0]).toContain(file);
    expect(stderr).toMatch(says);
    return file;
  }
  const withDatabase = (sql: string) => (file: string) => {
    const database = new DatabaseSync(file);
    database.exec(sql);
    database.close();
  };

  it("start makes a store of an empty file", async () => {
    const { child } = start((file) => writeFileSync(file, ""));
    await child.waitFor(/http:\/\/\S+/);
  });

  it("start refuses a text file as its store, and leaves it as it is", async () => {
    const text = "notes of mine\n".repeat(500);
    const file = await expectRefusal((name) => writeFileSync(name, text), /not a (SQLite )?database/i);
    expect(readFileSync(file, "utf8")).toBe(text);
  });

  it("start refuses the database of another application, and leaves it as it is", async () => {
    for (const version of bySize(0, 1) ? [0, 4, 7, 8] : [0, 8]) {
      const sql = `create table notes(text); insert into notes values('mine'); pragma user_version = ${version}`;
      const file = await expectRefusal(withDatabase(sql), /another|other|agentserve/i);
      const database = new DatabaseSync(file, { readOnly: true });
      expect(database.prepare("select name from sqlite_schema").all()).toEqual([{ name: "notes" }]);
      database.close();
    }
  });

  it("start refuses the format of a newer version, and names it", async () => {
    const newer = (file: string): void => {
      writeFileSync(file, closed.db);
      withDatabase("pragma user_version = 99")(file);
    };
    await expectRefusal(newer, /format 99|99/);
  });

  it("start refuses a folder as its store", async () => {
    await expectRefusal((file) => mkdirSync(file), /folder|directory/i);
  });

  it("start refuses a file whose first page is torn", async () => {
    const torn = (file: string): void => writeFileSync(file, Buffer.concat([Buffer.alloc(50), closed.db.subarray(50)]));
    await expectRefusal(torn, /database/i);
  });
});
