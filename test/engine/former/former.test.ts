// Files that servers of former builds left when they were killed. The same requests get the answers that those builds gave.
// `make-fixtures.ts` made the files and the answers.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { gunzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { startTestServer } from "../../harness/server.ts";
import { withoutCopiedStarts, type OwnSteps } from "./copied-starts.ts";
import create from "./work-app.ts";
import { continueWork, type Answers } from "./work.ts";

interface Former {
  /** The time after which the server that made the file was killed. */
  readonly madeAt: string;
  readonly answers: Answers;
}

const read = (file: string): Buffer => readFileSync(join(import.meta.dirname, file));

/** Opens a file of a former build with the code of today. Returns both answers to each request. */
async function open(commit: string): Promise<{ now: Answers; before: Answers }> {
  const folder = createFolder("former");
  const sql = read(`${commit}.sql`).toString();
  const db = new DatabaseSync(join(folder, "data.db"));
  db.exec(`pragma journal_mode = wal; begin; ${sql} commit`);
  db.close();
  writeFileSync(join(folder, "ran"), "");
  const { madeAt, answers } = JSON.parse(gunzipSync(read(`${commit}.json.gz`)).toString()) as Former;
  const server = await startTestServer("start", create({ folder }));
  const now = await continueWork(async (path, body) => {
    const { status, body: json, events } = await (body ? server.post(path, body) : server.get(path));
    return { status, body: json ?? events };
  }, folder);
  const toRole = (request: string): string => /workflows\/(.*)\/steps(\?.*)?$/.exec(request)?.[1] ?? "";
  const clean = (given: Answers): Answers => withoutCopiedStarts(withoutNews(given, madeAt, sql), ownSteps, toRole);
  return { now: clean(now), before: clean(answers) };
}

it("reads and continues a file of commit 640412b4 as that build did", async () => {
  const { now, before } = await open("640412b4");
  expect(Object.keys(before).length).toBeGreaterThan(200);
  expect(now).toEqual(before);
});

it("reads and continues a file of commit bbe49af, with the fields that later builds have added", async () => {
  const { now, before } = await open("bbe49af");
  // An id belongs to its sender now. The sender of this event was not stored.
  const conflict = 'act: /events {"name":"news","data":"other","id":"news-1"}';
  // The answer comes after the stored event is taken now.
  const resume = 'act: /workflows/takes/executions/takes/resume {"resumeData":"yes"}';
  expect([before[conflict], now[conflict]]).toMatchObject([{ status: 409 }, { status: 202 }]);
  for (const request of [conflict, resume]) delete before[request];
  // A sleep that continues after a resume keeps the time of its begin now.
  const withoutBegin = (answers: Answers): Answers =>
    JSON.parse(JSON.stringify(answers).replace(/"suspendedAt":"[^"]*",(?="reason":"Sleeping)/g, "")) as Answers;
  expect(withoutBegin(now)).toMatchObject(withoutBegin(before));
});

/**
 * Replaces what two runs cannot have in common: times after the kill of the server that made the file, and ids that the file
 * does not have. They are ids of triggered executions, of turns and of messages.
 */
function withoutNews(answers: Answers, madeAt: string, sql: string): Answers {
  const text = JSON.stringify(answers)
    .replace(/20\d\d-\d\d-\d\dT[\d:.]+Z/g, (time) => (time > madeAt ? "<after the kill>" : time))
    .replace(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}|(?<="id":")[\w-]{22}(?=")/g, (id) =>
      sql.includes(id) ? id : "<new id>",
    );
  return JSON.parse(text) as Answers;
}

const ownSteps: OwnSteps = {
  "approve/executions/fork-completed": ["end"],
  "approve/executions/fork-suspended": ["ask", "end"],
  "approve/executions/new-fork": ["end"],
  "approve/executions/new-fork-of-fork": ["ask"],
  "flaky/executions/fork-failed": ["second", "third"],
  "flaky/executions/new-fork-of-failed": ["second", "third"],
  "journey/executions/new-fork-journey": ["second"],
  "nested/executions/new-fork-nested": ["sub", "sub/inner", "sub/confirm"],
  "parent/executions/new-fork-of-parent": ["ask"],
};
