// The work of a list in rows and plans, because time depends on the machine. `node bench/lists.mjs` has the times.
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { beforeAll, expect, it } from "vitest";
import { PageNumbers } from "../../src/backends/embedded/store/page-numbers.ts";
import { schema } from "../../src/backends/embedded/store/sql.ts";
import type { ListFilter } from "../../src/engine/contract/engine.ts";

const count = 20_000;
const db = new DatabaseSync(":memory:");
const work = { rows: 0, statements: 0, plans: new Set<string>() };

/** A database that counts the rows that leave it, and keeps the plans of its statements. */
const watched = {
  prepare(sql: string): Pick<StatementSync, "all" | "get"> {
    const statement = db.prepare(sql);
    const details = db.prepare(`explain query plan ${sql}`).all() as { detail: string }[];
    const plan = details.map(({ detail }) => detail).join("; ");
    const note = <T>(rows: number, result: T): T => {
      work.rows += rows;
      work.statements++;
      work.plans.add(plan);
      return result;
    };
    return {
      all: (...values: any[]) => {
        const rows = statement.all(...values);
        return note(rows.length, rows);
      },
      get: (...values: any[]) => note(1, statement.get(...values)),
    };
  },
} as DatabaseSync; // what lists use of it

const timer = '{"at":1,"to":"suspended","reason":"x","pending":[{"stepId":"s","kind":"timer"}],"kinds":["timer"]}';
const person = '{"at":1,"to":"suspended","reason":"x","pending":[{"stepId":"s"}]}';
const failed = '{"at":1,"to":"error","error":{"message":"x"}}';
const cancelled = '{"at":1,"to":"error","cancellation":{"reason":"x"}}';

/** A fifth of the file sleeps, and seven executions of it wait for a person; a fifth has failed, and four were cancelled. */
beforeAll(() => {
  db.exec(schema);
  const add =
    db.prepare(`insert into executions(number, id, workflow, started, definition, input, user, status, epoch, last, seq, events)
    values(?, ?, ?, ?, 1, '{}', ?, ?, 1, ?, 0, '')`);
  db.exec("begin");
  for (let n = 1; n <= count; n++) {
    const isOld = n <= 1_500;
    const isRare = n % 6_000 < 10;
    const kind = n % 5;
    const [status, last] =
      kind === 0
        ? ["suspended", isRare ? person : timer]
        : kind === 1
          ? ["error", n % 6_000 === 1 ? cancelled : failed]
          : ["completed", "{}"];
    add.run(n, isOld ? `schedule:${n}` : `x${n}`, `w${n % 7}`, n, n % 2 ? "ada" : `u${n % 50}`, status, last);
  }
  db.exec("commit");
});

async function find(filter: Omit<ListFilter, "limit">): Promise<typeof work & { found: number[] }> {
  const pages = new PageNumbers(watched);
  Object.assign(work, { rows: 0, statements: 0, plans: new Set() });
  const found = await pages.find({ limit: 50, ...filter }, async () => {});
  return { ...work, found };
}

it.each<[string, Omit<ListFilter, "limit">]>([
  ["all", {}],
  ["status", { status: ["suspended"] }],
  ["statuses", { status: ["suspended", "error"] }],
  ["completed", { status: ["completed"] }],
  ["running", { status: ["running"] }],
  ["workflow", { workflowId: "w3" }],
  ["workflow and status", { workflowId: "w3", status: ["error"] }],
  ["user", { userId: "ada" }],
  ["user and status", { userId: "u8", status: ["suspended"] }],
  ["a kind that most have", { kind: ["timer"] }],
  ["a kind that few have", { kind: ["person"] }],
  ["a kind that none has", { kind: ["event", "system"] }],
  ["a kind that few of a user have", { kind: ["person"], userId: "ada" }],
  ["cancelled", { isCancelled: true }],
  ["not cancelled", { isCancelled: false }],
  ["the beginning of few ids", { idPrefix: "x1999" }],
  ["the beginning of most ids", { idPrefix: "x" }],
  ["a time", { since: 10_000, until: 12_000 }],
  ["a page far behind", { before: { startAt: 4_000, id: "x4000" } }],
  ["a kind, far behind", { kind: ["person"], before: { startAt: 9_000, id: "x9000" } }],
])("looks at few rows for a list by %s", async (_, filter) => {
  const { rows, plans } = await find(filter);
  expect(rows).toBeLessThan(1_000);
  for (const plan of plans) {
    expect(plan).not.toMatch(/SCAN executions(?! USING)/);
    // The order is that of the index, except among the few that run, and among those of one moment.
    if (!/executions_running|autoindex/.test(plan)) expect(plan).not.toMatch(/TEMP B-TREE(?! FOR LAST TERM)/);
  }
});

it("finds the end of a chunk in the index alone, where few rows of it fit", async () => {
  const { plans, found } = await find({ kind: ["person"] });
  expect(found).toHaveLength(7);
  expect([...plans].join("\n")).toContain("USING COVERING INDEX executions_by_status");
  const ofUser = await find({ kind: ["person"], userId: "u0" });
  expect([...ofUser.plans].join("\n")).toContain("USING COVERING INDEX executions_by_user_and_status");
});

it("finds old executions by the beginning of their ids without reading all newer ones", async () => {
  const { rows, found } = await find({ idPrefix: "schedule:" });
  expect(found).toEqual(Array.from({ length: 51 }, (_, index) => 1_500 - index));
  expect(rows).toBeLessThan(4_000); // of 18,500 newer ones
  const ofStatus = await find({ idPrefix: "schedule:", status: ["suspended"], userId: "u10" });
  expect(ofStatus.found[0]).toBe(1_460);
});
