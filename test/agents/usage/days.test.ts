// Each of these changes makes a test of this file fail: days of another time zone; a day that `since` or `until` leaves out; usage
// that is kept for 399 or 401 days; a removal that stops after its first rows; a conversation that expires with its usage.
import { DatabaseSync } from "node:sqlite";
import { embedded } from "agentserve";
import { createClock } from "agentserve/testing";
import { expect, it } from "vitest";
import { newFile, query, serve } from "../../workflows/waits/serve.ts";
import { meteredAgent, readItems, readUsage, sumOf, toQuestion } from "./metered.ts";

const config = { agents: [meteredAgent("a")] };
type Serving = ReturnType<typeof serve>;
const say = ({ post }: Serving, input: string, options: object = {}) => post("/agents/a/text", { input, options });
const daysOf = async (server: Serving, asked: object = {}): Promise<string[]> =>
  (await readItems(server, "a", { ...asked })).map(({ day }) => day);

it("counts a call for the UTC day on which it ends", async () => {
  const clock = createClock({ now: "2030-01-31T23:59:59.998Z" });
  const server = serve(config, { clock });
  await say(server, toQuestion([1, 1]));
  await say(server, toQuestion([2, 2]), { conversationId: "c" });
  await clock.advance(1);
  await say(server, toQuestion([3, 3]));
  await clock.advance(1);
  await say(server, toQuestion([4, 4]), { conversationId: "c" });
  await say(server, toQuestion([5, 5]));
  expect(await readItems(server, "a")).toEqual([
    { day: "2030-02-01", ...sumOf([4, 4], [5, 5]) },
    { day: "2030-01-31", ...sumOf([1, 1], [2, 2], [3, 3]) },
  ]);
});

it("lists usage from since to until, both included, newest first", async () => {
  const server = serve(config, { clock: createClock({ now: "2030-01-01T12:00:00Z" }) });
  for (let day = 1; day <= 35; day++) {
    await say(server, toQuestion([day, 0]));
    await server.clock.advance("1d");
  }
  const days = await daysOf(server, { since: "2030-01-01" });
  expect(days).toHaveLength(35);
  expect(days).toEqual(days.toSorted().toReversed());
  expect(await daysOf(server, { since: "2030-01-01", limit: 10 })).toEqual(days);
  expect(await daysOf(server, { since: "2030-01-03", until: "2030-01-05" })).toEqual([
    "2030-01-05",
    "2030-01-04",
    "2030-01-03",
  ]);
  expect(await readItems(server, "a", { since: "2030-01-03", until: "2030-01-05", by: "user" })).toEqual([
    { userId: null, ...sumOf([3, 0], [4, 0], [5, 0]) },
  ]);
  expect(await daysOf(server, { until: "2030-01-02" })).toEqual(["2030-01-02", "2030-01-01"]);
  // Today is February 5.
  expect(await daysOf(server)).toEqual(days.filter((day) => day >= "2030-01-07"));
  expect((await readUsage(server, "a", { since: "2031-01-01" })).body.data).toMatchObject({
    since: "2031-01-01",
    until: "2031-01-01",
    items: [],
  });
  const whole = await readUsage(server, "a", { since: "1970-01-01", until: "9999-12-31" });
  expect(whole.body.data.items).toHaveLength(35);
});

it("keeps usage for 400 days, and removes it a few rows at a time", async () => {
  const path = newFile();
  const clock = createClock({ now: "2030-01-01T12:00:00Z" });
  const server = serve({ ...config, backend: embedded({ path, retention: false }) }, { clock });
  const users = 250;
  for (let user = 0; user < users; user++) await say(server, toQuestion([1, 1]), { userId: `user-${user}` });
  await clock.advance("1d");
  await say(server, toQuestion([2, 2]));
  await clock.advance("399d");
  expect(await daysOf(server, { since: "2030-01-01" })).toEqual(["2030-01-02", "2030-01-01"]);
  await clock.advance("1d");
  expect(await daysOf(server, { since: "2030-01-01" })).toEqual(["2030-01-02"]);
  expect(query(path, "select count(*) as count from usage")).toEqual([{ count: 1 }]);
  await clock.advance("1d");
  expect(query(path, "select count(*) as count from usage")).toEqual([{ count: 0 }]);
});

it("removes usage that is too old within moments of the start", async () => {
  const path = newFile();
  const clock = createClock({ now: "2030-01-01T12:00:00Z" });
  const open = () => serve({ ...config, backend: embedded({ path }) }, { clock });
  const first = open();
  await say(first, toQuestion([1, 1]));
  await first.close();
  const db = new DatabaseSync(path);
  db.exec(
    `with recursive n(n) as (select 1 union all select n + 1 from n where n < 2500)
      insert into usage select n % 7, 'gone', '=' || n, '', 'm/m', 1, 1, 1, 2, 0, 0 from n`,
  );
  db.close();
  const second = open();
  expect(await daysOf(second)).toEqual(["2030-01-01"]);
  await clock.advance("1s");
  expect(query(path, "select agent from usage")).toEqual([{ agent: "a" }]);
});

it("keeps the usage of a conversation that has expired", async () => {
  const clock = createClock({ now: "2030-01-01T12:00:00Z" });
  const server = serve(
    { ...config, backend: embedded({ path: ":memory:", retention: { conversations: "10d" } }) },
    { clock },
  );
  await say(server, toQuestion([1, 1]), { conversationId: "c" });
  await clock.advance("3d");
  await say(server, toQuestion([2, 2]), { conversationId: "c" });
  const conversations = () => readItems(server, "a", { by: "conversation" });
  expect(await conversations()).toMatchObject([{ conversationId: "c", calls: 2 }]);
  await clock.advance("11d");
  expect(await conversations()).toEqual([{ conversationId: null, userId: null, ...sumOf([1, 1], [2, 2]) }]);
  expect(await daysOf(server)).toEqual(["2030-01-04", "2030-01-01"]);
});
