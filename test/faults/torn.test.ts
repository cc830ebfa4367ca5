import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { andAll, andThen, defineWorkflow, embedded } from "agentserve";
import fc from "fast-check";
import * as v from "valibot";
import { beforeAll, expect, it } from "vitest";
import { toProject } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";
import { agentserve } from "../harness/cli.ts";
import { parseEvents } from "../harness/client.ts";
import { createSharedFolder } from "../harness/folders.ts";
import { createGates } from "../harness/gates.ts";
import { createProject } from "../harness/project.ts";
import { createTestLogger } from "../harness/server.ts";
import { seed } from "../harness/seed.ts";
import { bySize } from "../harness/size.ts";
import { within } from "../harness/waiting.ts";

const folder = createSharedFolder("torn");

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

async function make({ id, n, workflow }: Begun): Promise<void> {
  const path = `/workflows/${workflow}/executions/${id}`;
  const headers = workflow === "gated" ? { prefer: "respond-async" } : {};
  await request(`/workflows/${workflow}/execute`, { input: { n }, options: { executionId: id } }, headers);
  if (workflow === "gated") await gates.reached(id);
  if (id.endsWith(".resumed")) await request(`${path}/resume`, { resumeData: { approved: true } });
  if (id.endsWith(".suspended")) await request(`${path}/suspend`, {});
  if (id.endsWith(".cancelled")) await request(`${path}/cancel`, {});
}

// The server, in process.

function open(file: string) {
  const config = { workflows, backend: embedded({ path: file }), server: { limits: { drainMs: 50 } } };
  return openServer(toProject(config), { mode: "start", logger: createTestLogger([]) });
}
/** The server that is being asked. */
let server: ReturnType<typeof open>;
/** The answers of this server that are not a success. */
let problems: string[] = [];

async function send(path: string, init: RequestInit = {}): Promise<{ response: Response; text: string }> {
  const sent = server.fetch(new Request(`http://localhost${path}`, init));
  return within(
    sent.then(async (response) => ({ response, text: await response.text() })),
    `an answer to ${path}`,
  );
}

/** Sends a request, with POST if it has a body. */
async function request(path: string, json?: unknown, headers = {}): Promise<{ body: any; events: any[] }> {
  const post = { method: "POST", headers: { "content-type": "application/json", ...headers } };
  const { response, text } = await send(path, json === undefined ? {} : { ...post, body: JSON.stringify(json) });
  if (response.headers.get("content-type") === "text/event-stream")
    return { body: undefined, events: parseEvents(text) };
  const body = JSON.parse(text);
  if (!response.ok) {
    const { executionId: _, ...error } = body;
    expect(error, path).toEqual({ success: false, error: expect.any(String) });
    problems.push(`${response.status} ${body.error}`);
  }
  return { body, events: [] };
}

/** A file as it was while a server had it open, and what it said. */
interface Template {
  readonly db: Buffer;
  readonly wal: Buffer;
  readonly begun: readonly Begun[];
  /** What each execution had written by then. */
  readonly events: Map<string, any[]>;
}
let template: Template;
/** The same, after the server left: all of it is in the main file. */
let closed: Template;

beforeAll(async () => {
  template = await build();
  for (const { id } of template.begun) gates.open(id); // for good: the servers that made the file are closed
  await learn();
  const file = write(template);
  const database = new DatabaseSync(file);
  database.exec("pragma wal_checkpoint(truncate)");
  database.close();
  closed = { ...template, db: readFileSync(file), wal: Buffer.alloc(0) };
});

/** Half of it is in the main file, the other half in the log. */
async function build(): Promise<Template> {
  const file = join(folder, "template.db");
  const begun = Array.from({ length: bySize(3, 6) * kinds.length }, (_, n) => toBegun(kinds[n % kinds.length]!, n));
  const half = Math.floor(begun.length / 2);
  server = open(file);
  for (const one of begun.slice(0, half)) await make(one);
  await server.close();
  server = open(file);
  for (const one of begun.slice(half)) await make(one);
  const found = { db: readFileSync(file), wal: readFileSync(`${file}-wal`), begun, events: new Map() };
  await server.close();
  expect(found.wal.readUInt32BE(8), "the page size").toBe(pageBytes);
  return found;
}
const pageBytes = 4096;

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
async function learn(): Promise<void> {
  const openedAt = await nextMoment();
  server = open(write(template));
  const found = await lookAt();
  await server.close();
  expect(found.map(({ id }) => id)).toEqual(template.begun.map(({ id }) => id));
  for (const { id, events, opened } of found) {
    template.events.set(id, events.filter(isOld(openedAt)));
    const status = statusOf(id);
    expect(status === "running" ? [status, "completed"] : [status], id).toContain(opened.status); // it continues at once
  }
  expect(problems.filter((problem) => !problem.startsWith("500 Failed to execute workflow"))).toEqual([]);
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

/** Looks at every execution, lets it run to its end, resumes it where it waits. */
async function lookAt(): Promise<Found[]> {
  ran.clear();
  const found: Omit<Found, "final">[] = [];
  const states = await list();
  for (const one of template.begun) {
    const opened = states.get(one.id);
    if (!opened) continue;
    const path = `/workflows/${one.workflow}/executions/${one.id}`;
    const { events } = await request(`${path}/stream`);
    let all = events;
    if (events.at(-1)?.status === "suspended") {
      await request(`${path}/resume`, one.workflow === "ask" ? { resumeData: { approved: true } } : {});
      ({ events: all } = await request(`${path}/stream`));
    }
    found.push({ ...one, opened, events, all });
  }
  const finals = await list();
  return found.map((one) => ({ ...one, final: finals.get(one.id) }));
}

async function list(): Promise<Map<string, any>> {
  const states = new Map<string, any>();
  for (const { id } of workflows) {
    const { body } = await request(`/workflows/${id}/executions?limit=200`);
    for (const state of body.data?.items ?? []) states.set(state.executionId, state);
  }
  return states;
}

/** What was written is as it was, and did not run again; the rest ran once, to the right end. */
function judge(found: readonly Found[], openedAt: number): void {
  const { begun, events: known } = template;
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
  use: (found: readonly Found[], openedAt: number) => string,
): Promise<string> {
  const openedAt = await nextMoment();
  const file = write(changed);
  problems = [];
  server = open(file);
  const refusal = await send("/workflows").then(
    () => undefined,
    (error: Error) => error.message,
  );
  let outcome = "refused";
  if (refusal === undefined) {
    const found = await lookAt().catch((error: unknown) => {
      if (!isReadOnly()) throw error;
    });
    outcome = found ? use(found, openedAt) : "cannot be written";
    expect((await send("/doc")).response.status, "what needs no file").toBe(200);
  } else expect([refusal, refusal.split("\n").length]).toEqual([expect.stringContaining(file), 1]);
  const closing = await server.close().then(
    () => "",
    (error: Error) => `, cannot be closed: ${error.message}`,
  );
  rmSync(join(file, ".."), { recursive: true });
  return outcome + closing;
}
/** A flip in the header may make the file read-only. Then what runs waits for better days, and so do its readers. */
const isReadOnly = (): boolean => problems.some((problem) => problem.startsWith("503 "));

/** With a damaged log, the file is as good as it ever was. Says how many events it has kept. */
const tryLog = (wal: Buffer): Promise<string> =>
  withFile({ db: template.db, wal }, (found, openedAt) => {
    expect(problems).toEqual([]);
    judge(found, openedAt);
    return String(found.flatMap(({ events }) => events.filter(isOld(openedAt))).length);
  });

/** SQLite has no checksums in the main file: what is flipped may be seen or not. */
const tryFlip = (bit: number): Promise<string> =>
  withFile({ db: flip(closed.db, bit), wal: closed.wal }, (found, openedAt) => {
    if (isReadOnly()) return "cannot be written";
    if (problems.length > 0) return "an error was answered";
    try {
      judge(found, openedAt);
    } catch {
      return "accepted, with something wrong";
    }
    return found.length === closed.begun.length ? "accepted, all is right" : "accepted, something is missing";
  });

/** The outcome of each variant, in the order of the places in the file that they change. */
async function each(places: Iterable<number>, run: (place: number) => Promise<string>): Promise<string[]> {
  const outcomes: string[] = [];
  for (const place of [...places].toSorted((a, b) => a - b)) {
    const outcome = run(place).catch((error: unknown) => {
      throw new Error(`${place} (SEED=${seed}): ${(error as Error).message}`, { cause: error });
    });
    outcomes.push(await outcome);
  }
  const counts = [...Map.groupBy(outcomes, (one) => one)].map(([one, same]) => `${one}: ${same.length}`);
  console.log(`${outcomes.length} damaged files, seed ${seed}:`, counts.join("; "));
  return outcomes;
}

/** The further behind the damage is, the more is kept. */
function expectMoreAndMore(outcomes: readonly string[], moments: number): void {
  const kept = outcomes.filter((outcome) => outcome !== "refused").map(Number);
  expect(kept.every(Number.isInteger)).toBe(true);
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

it("a write-ahead log that is cut anywhere leaves the file as it was at some moment before", { timeout }, async () => {
  const { wal, events } = template;
  const every = bySize(2, 1) * (pageBytes + 24);
  const boundaries = Array.from({ length: bySize(8, 30) }, (_, n) => wal.length - n * every);
  const cuts = new Set(boundaries.flatMap((at) => [at - 1, at, at + 1]).filter((at) => at <= wal.length));
  for (let back = 1; back <= pageBytes; back += bySize(1_024, 32)) cuts.add(wal.length - back);
  const outcomes = await each(cuts, (cut) => tryLog(wal.subarray(0, cut)));
  expectMoreAndMore(outcomes, 3);
  expect(outcomes.at(-1), "the whole log").toBe(String([...events.values()].flat().length));
});

it("a write-ahead log with a flipped bit is read up to there", { timeout }, async () => {
  const { wal } = template;
  const header = Array.from({ length: bySize(8, 32) }, (_, n) => n * bySize(4, 1)).map((at) => at * 8 + (at % 8));
  const flips = [...header, ...bits(wal, bySize(10, 60))];
  const outcomes = await each(flips, (bit) => tryLog(flip(wal, bit)));
  expectMoreAndMore(outcomes, bySize(5, 10));
});

it("a flipped bit in the main file ends no process and hangs no request", { timeout }, async () => {
  const { db } = closed;
  // The header and the beginning of every page, where its structure is, then anywhere.
  const header = bits(db.subarray(0, 100), bySize(5, 25));
  const pages = bits(Buffer.alloc((db.length / pageBytes) * 12), bySize(5, 30)).map((bit) => {
    const page = Math.floor(bit / 96);
    return page * pageBytes * 8 + (page === 0 ? 800 : 0) + (bit % 96);
  });
  const outcomes = await each([...header, ...pages, ...bits(db, bySize(8, 60))], tryFlip);
  expect(outcomes.filter((outcome) => outcome.startsWith("refused, "))).toEqual([]);
});

// `agentserve start`.

const config = `import { defineConfig } from "agentserve";\nexport default defineConfig({ server: { port: 0 } });\n`;
function start(prepare: (file: string) => void) {
  const project = createProject({ "agents.config.ts": config });
  const file = join(project, "data.db");
  prepare(file);
  return { file, child: agentserve(["start", "--data", file], { cwd: project }) };
}
const execute = (sql: string) => (file: string) => {
  const database = new DatabaseSync(file);
  database.exec(sql);
  database.close();
};
const notes = "create table notes(text); insert into notes values('mine')";

it("start makes a store of an empty file", async () => {
  const { child } = start((file) => writeFileSync(file, ""));
  await child.waitFor(/http:\/\/\S+/);
});

const text = "notes of mine\n".repeat(500);
const refused: [string, (file: string) => void, RegExp][] = [
  ["a text file", (file) => writeFileSync(file, text), /not a (SQLite )?database/i],
  ["the database of another application", execute(notes), /another|other|agentserve/i],
  ["another database with our version", execute(`${notes}; pragma user_version = 8`), /another|other|agentserve/i],
  [
    "the format of a newer version",
    (file) => {
      writeFileSync(file, closed.db);
      execute("pragma user_version = 99")(file);
    },
    /99/,
  ],
  ["a folder", (file) => mkdirSync(file), /folder|directory/i],
  [
    "a file whose first page is torn",
    (file) => writeFileSync(file, Buffer.concat([Buffer.alloc(50), closed.db.subarray(50)])),
    /database/i,
  ],
];
it.each(refused)("start refuses %s as its store, and leaves it as it is", async (_, prepare, says) => {
  let before: Buffer | undefined;
  const { file, child } = start((name) => {
    prepare(name);
    before = contentOf(name);
  });
  const serves = child.waitFor(/http:\/\/\S+/).then(() => "it serves");
  serves.catch(() => {}); // it ended first
  expect(await Promise.race([child.ended.then(() => "it ended"), serves])).toBe("it ended");
  const { code, stderr } = await child.ended;
  // One line that names the file, and perhaps one that says what to do.
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^error [^\n]+\n(hint  [^\n]+\n)?$/)]);
  expect(stderr.split("\n")[0]).toContain(file);
  expect(stderr).toMatch(says);
  expect(contentOf(file)).toEqual(before);
});
/** The content of a file; undefined for a folder. SQLite counts accesses in the header, the first 100 bytes. */
const contentOf = (path: string): Buffer | undefined =>
  statSync(path).isFile() ? readFileSync(path).subarray(100) : undefined;
