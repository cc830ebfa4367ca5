import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { bySize } from "../../harness/size.ts";
import { startHost, type Host } from "../../harness/start-host.ts";
import { until } from "../../harness/waiting.ts";
import { query as read } from "../../workflows/waits/serve.ts";

const minute = 60_000;
const json = { "content-type": "application/json" };
/** The short ones last: all of them must wait at the same time. */
const kinds = ["sleep", "until", "deadline", "event", "retry", "short-sleep", "short-retry"];
const each = Array.from({ length: 10 }, (_, index) => index);

it("ends at once by SIGTERM while executions wait; after it and SIGKILLs each wait ends at its time, once", async () => {
  const world = createWorld();
  const { count, linesOf } = world;
  const first = await world.start(0);
  for (const kind of kinds) await Promise.all(each.map((n) => first.begin(kind, `${kind}.${n}`)));
  const timers = (kinds.length - 1) * each.length; // `event` has none
  await until(() => count("timers") === timers && count("event_waits") === each.length, "all to wait");
  const reader = await fetch(`${first.url}/workflows/sleep/executions/sleep.0/stream?until=end`);
  const caller = fetch(`${first.url}/workflows/retry/execute`, { method: "POST", headers: json, body: `{"input":{}}` });
  await until(() => count("timers") === timers + 1, "the execution of a caller to wait");
  await first.end("SIGTERM");
  expect((await caller).status).toBe(503);
  expect(await reader.text()).not.toContain("workflow-result");

  // Half an hour later only the short ones are due.
  const second = await world.start(30 * minute);
  const others = kinds.filter((kind) => !kind.startsWith("short"));
  await until(() => world.statuses(...others).join() === "completed", "the short ones to end");
  await second.end("SIGKILL");
  const third = await world.start(61 * minute);
  expect(await third.send({ name: "go", data: "event" })).toBe(202);
  await until(() => world.statuses("retry").join() === "completed", "all but the retries to end");
  await until(() => each.every((n) => linesOf(`retry.${n}`).length === 2), "the second attempts");
  await until(() => count("timers") === each.length + 1, "them to wait again");
  await third.end("SIGKILL");
  const fourth = await world.start(122 * minute);
  await until(() => world.statuses().join() === "completed", "all to end");
  await fourth.end("SIGTERM");

  const expected: Record<string, unknown[]> = {
    "short-sleep": [[30, {}]],
    sleep: [[61, {}]],
    until: [[61, {}]],
    deadline: [[61, "late"]],
    event: [[61, "event"]],
    // The delays were kept, and not begun again.
    retry: [
      [0, 1],
      [61, 2],
      [122, 3],
    ],
    "short-retry": [
      [0, 1],
      [30, 2],
    ],
  };
  for (const kind of kinds) for (const n of each) expect(linesOf(`${kind}.${n}`), kind).toEqual(expected[kind]);
  expect([count("timers"), count("event_waits")]).toEqual([0, 0]);
  expect(world.crashes(), "they were not interrupted").toBe(0);
});

it("hands each event to each execution once while processes are killed and clients send again", async () => {
  const world = createWorld();
  const ids = Array.from({ length: bySize(40, 300) }, (_, index) => `three.${index}`);
  let server = await world.start(0);
  // Some sleep for longer than it takes to send the next event, and some wait already.
  for (const [index, id] of ids.entries()) await server.begin("three", id, { ms: (index % 20) * 40 });
  const kills = bySize(2, 20);
  let unanswered = 0;
  for (const [data, id] of ["e1", "e2", "e3"].entries()) {
    for (let n = 0; n < kills; n++) {
      const sent = server.send({ name: "tick", data, id });
      const isCut = n % 2 === 0; // killed before it is answered, or some time after
      if (!isCut) expect(await sent).toBe(202);
      // Three crashes in a row without a new row would suspend an execution.
      if (!isCut) await until(() => world.interrupted() === 0, "those that were interrupted to continue");
      if (data + n > 0) await sleep(Math.random() * (isCut ? 5 : 200)); // the first one has no time to answer
      await server.end("SIGKILL");
      unanswered += (await sent) === undefined ? 1 : 0;
      server = await world.start(0);
    }
    expect(await server.send({ name: "tick", data, id })).toBe(202);
    expect(await server.send({ name: "tick", data: "another", id })).toBe(409);
  }
  await until(() => world.statuses().join() === "completed", "all to end");
  await server.end("SIGTERM");
  const sentIds = ["e1 anonymous", "e2 anonymous", "e3 anonymous"]; // with their sender
  const taken = world.query<{ events: string }>(
    "select group_concat(json_extract(body, '$.event'), ' ' order by n) as events from journal where kind = 'wake' and json_extract(body, '$.event') is not null group by number",
  );
  expect(taken.map(({ events }) => events)).toEqual(ids.map(() => sentIds.join(" ")));
  expect(world.query<{ id: string }>("select id from events order by number").map(({ id }) => id)).toEqual(sentIds);
  for (const id of ids) {
    // A step in flight at a kill is repeated.
    const values = world.linesOf(id).map(([, value]) => value);
    expect([id, values.filter((value, index) => value !== values[index - 1])]).toEqual([id, [0, 1, 2]]);
  }
  console.log(`events: ${unanswered} of ${3 * kills} kills before the answer`);
  expect(unanswered).toBeGreaterThan(0);
});

/** A data file and a log, and the processes that use them one after the other. */
function createWorld() {
  const folder = createFolder("waits");
  const query = <Row>(sql: string): Row[] => read(join(folder, "data.db"), sql);
  /** The lines of an execution: the minutes by which the clock of its process was ahead, and what it noted. */
  const linesOf = (id: string): [number, unknown][] =>
    readFileSync(join(folder, "log"), "utf8")
      .split("\n")
      .filter((line) => line.startsWith(`${id} `))
      .map((line) => {
        const [, ahead, what] = line.split(" ");
        return [Number(ahead) / minute, JSON.parse(what!)];
      });
  return {
    query,
    linesOf,
    count: (table: string) => query<{ count: number }>(`select count(*) as count from ${table}`)[0]!.count,
    crashes: () => query<{ crashes: number }>("select max(crashes) as crashes from executions")[0]!.crashes,
    /** The number of executions that have made no row since a crash. */
    interrupted: () =>
      query(`select 1 from executions where status = 'running'
        and crash_row is (select coalesce(max(n), 0) from journal where journal.number = executions.number)`).length,
    /** The statuses of all executions, except those of some workflows. */
    statuses(...except: string[]): string[] {
      const list = except.map((id) => `'${id}'`).join();
      return query<{ status: string }>(
        `select distinct status from executions where workflow not in (${list || "''"})`,
      ).map(({ status }) => status);
    },
    start: async (ahead: number) =>
      toClient(await startHost(join(import.meta.dirname, "waits-app.ts"), { folder, ahead })),
  };
}

function toClient(host: Host) {
  const { url } = host;
  return {
    url,
    async begin(workflow: string, executionId: string, input: object = {}): Promise<void> {
      const response = await fetch(`${url}/workflows/${workflow}/execute`, {
        method: "POST",
        headers: { ...json, prefer: "respond-async" },
        body: JSON.stringify({ input, options: { executionId } }),
      });
      expect(response.status).toBe(202);
    },
    /** Resolves to undefined without an answer. */
    send: (event: object): Promise<number | undefined> =>
      fetch(`${url}/events`, { method: "POST", headers: json, body: JSON.stringify(event) }).then(
        ({ status }) => status,
        () => undefined,
      ),
    async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
      expect(await host.end(signal)).toMatchObject(signal === "SIGTERM" ? { code: 0 } : { signal });
    },
  };
}
