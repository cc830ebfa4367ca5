import { describe, expect, it } from "vitest";
import { createToken, defineAgent, defineWorkflow, jwtAuth, type AgentHooks } from "agentserve";
import { echoModel } from "agentserve/models";
import { startTestServer } from "../../harness/server.ts";
import { began, combinations, levels, matching, newest, toSearch } from "./oracle.ts";
import type { Plan, Query, Written } from "./oracle.ts";
import { httpPath, openWorld, readAll, socketPath, toRecord, type World } from "./world.ts";

const iso = (at: number): string => new Date(at).toISOString();

/** Every level with every mix of ids, some of them at the same millisecond. */
const plans: readonly Plan[] = Array.from({ length: 240 }, (_, n) => ({
  level: levels[n % 6]!,
  later: n % 3 === 0 ? 1 : 0,
  pad: n % 7,
  agentId: [undefined, "a", "A"][n % 3],
  workflowId: [undefined, "a", "ä/ö?&=#%+", '"}\\'][n % 4],
  executionId: [undefined, "a b", "__proto__", "🦜", "%2e%00"][n % 5],
}));
const queries: readonly Query[] = combinations({
  level: ["trace", "warn", "fatal"],
  agentId: ["a", "A", "nobody"],
  workflowId: ["a", "ä/ö?&=#%+", '"}\\'],
  executionId: ["a b", "__proto__", "🦜", "%2e%00", "constructor"],
  since: [String(began + 20), iso(began + 60), String(began + 500)],
  until: [String(began + 20), iso(began + 60), String(began - 1)],
  limit: ["1", "7", "1000"],
});

async function ask({ server }: World, query: Query): Promise<unknown> {
  const { status, body } = await server.get(`${httpPath}?${toSearch(query)}`);
  expect(status).toBe(200);
  return body.data;
}

describe("the filters of GET /api/logs", () => {
  it.each([10_000, 100])(
    "answers every filter, pair of filters and all together in a ring of %i records",
    async (size) => {
      const world = await openWorld({ logRecords: size }, "in process");
      world.write(plans);
      let some = 0;
      for (const query of queries) {
        const wanted = newest(world.written.slice(-size), query).map(toRecord);
        expect(await ask(world, query), toSearch(query)).toEqual(wanted);
        if (wanted.length > 0 && wanted.length < 100) some++;
      }
      expect(some).toBeGreaterThan(queries.length / 3); // else it would have compared nothing with nothing
    },
  );

  it("keeps the newest records of a ring that overflows by bytes, and no fewer than fit", async () => {
    const world = await openWorld({ logBytes: 3_000 }, "in process");
    const kept: Written[] = [];
    for (const plan of plans) {
      world.write([plan]);
      kept.push(world.written.at(-1)!);
      while (sizeOf(kept) > 3_000) kept.shift();
      expect(await ask(world, { limit: "1000" })).toEqual(kept.map(toRecord));
    }
  });

  it("counts bytes, not letters, against logBytes", async () => {
    const world = await openWorld({ logBytes: 10_000 }, "in process");
    for (let n = 0; n < 50; n++) world.logs.logger.info("日本語".repeat(100));
    const kept = (await ask(world, {})) as object[];
    expect(kept.length).toBeGreaterThan(0);
    expect(Buffer.byteLength(JSON.stringify(kept))).toBeLessThan(10_500); // commas and brackets
  });

  it("answers with the newest 100 records unless limit says how many, and with at most 1000", async () => {
    const world = await openWorld({}, "in process");
    world.write(Array.from({ length: 1_500 }, (_, n) => plans[n % plans.length]!));
    const seqs = async (query: Query) => ((await ask(world, query)) as { seq: number }[]).map(({ seq }) => seq);
    const last = (many: number) => Array.from({ length: many }, (_, n) => 1_500 - many + 1 + n);
    expect(await seqs({})).toEqual(last(100));
    expect(await seqs({ limit: "1" })).toEqual([1_500]);
    expect(await seqs({ limit: "1000" })).toEqual(last(1_000));
  });

  it("keeps a lone record that is as long as the ring, and none that is longer", async () => {
    const world = await openWorld({ logBytes: 300 }, "in process");
    world.logs.logger.info("y");
    const [one] = (await ask(world, {})) as object[];
    const rest = JSON.stringify(one).length - 1;
    world.logs.logger.info("x".repeat(300 - rest));
    expect(await ask(world, {})).toMatchObject([{ seq: 2 }]);
    world.logs.logger.info("x".repeat(301 - rest));
    expect(await ask(world, {})).toEqual([]);
    world.logs.logger.info("z");
    expect(await ask(world, {})).toMatchObject([{ seq: 4, message: "z" }]);
  });

  it("takes since = until for that very millisecond, in each form of a time", async () => {
    const world = await openWorld({}, "in process");
    world.write(plans);
    const at = began + 10;
    const wanted = world.written.filter((record) => record.at === at).map(toRecord);
    expect(wanted).toHaveLength(3);
    const forms = [
      String(at),
      iso(at),
      "2026-03-01T00:00:00.010+00:00",
      "2026-03-01T05:30:00.010+05:30",
      "2026-02-28T16:00:00.010-08:00",
      "2026-03-01T00:00:00.01Z",
    ];
    for (const since of forms) for (const until of forms) expect(await ask(world, { since, until })).toEqual(wanted);
    expect(await ask(world, { since: String(at + 1), until: String(at) })).toEqual([]);
    expect(await ask(world, { until: "2026-03-01" })).toEqual(
      newest(world.written, { until: String(began) }).map(toRecord),
    );
    expect(await ask(world, { since: "2026-03-01T00:00Z", limit: "1000" })).toEqual(world.written.map(toRecord));
  });
});

const badQueries = [
  "level=loud level= level=INFO level=info,warn level=__proto__ limit=0 limit=-1 limit=1001",
  "limit=99999999999999999999 limit=1.5 limit=1e2 limit=0x10 limit=%205 limit= limit=all since=yesterday since=",
  "since=-1 since=1.5 since=NaN since=Infinity since=2026-13-01 since=2026-01-32 since=2026-02-30",
  "until=2026-02-29T00:00:00Z until=2026-04-31 until=2026-01-31T25:00:00Z until=2026-01-31T12:00:00X",
  "until=Sat,%2031%20Jan%202026%2012:00:00%20GMT until=12:00 limit=1&limit=2 agentId=a&agentId=b since=1&since=2",
  "executionId=a&executionId=a",
].flatMap((line) => line.split(" "));

describe("an invalid filter", () => {
  const error = expect.stringMatching(/^Invalid query: /);

  it("refuses an invalid filter of GET /api/logs with 400", async () => {
    const server = await startTestServer("in process");
    for (const query of badQueries) {
      const { status, body } = await server.get(`/api/logs?${query}`);
      expect([query, status, body]).toEqual([query, 400, { success: false, error }]);
    }
  });

  it("refuses an invalid filter of /ws/logs with an ERROR and the close code 1008, and keeps no listener", async () => {
    const world = await openWorld();
    for (const query of badQueries) {
      const socket = await world.server.socket(`${socketPath}?${query}`);
      expect([query, await socket.next()]).toEqual([query, { type: "ERROR", success: false, error }]);
      expect(await socket.closed).toBe(1008);
    }
    expect(world.listeners()).toBe(0);
  });
});

describe("the filters of /ws/logs", () => {
  it("sends what every filter, pair of filters and all together match over /ws/logs, in the snapshot and live", async () => {
    const world = await openWorld();
    world.write(plans.slice(0, 120));
    const sockets = [];
    for (const query of queries) sockets.push(await world.server.socket(`${socketPath}?${toSearch(query)}`));
    for (const [n, query] of queries.entries()) {
      const wanted = newest(world.written, query).map(toRecord);
      expect(await sockets[n]!.next(), toSearch(query)).toEqual({ type: "LOGS_SNAPSHOT", success: true, data: wanted });
    }
    world.write(plans.slice(120));
    let some = 0;
    for (const [n, query] of queries.entries()) {
      // The limit is of the snapshot; what comes, comes.
      const wanted = matching(world.written.slice(120), query).map(toRecord);
      const got = await readAll(sockets[n]!);
      expect(got, toSearch(query)).toEqual(wanted.map((data) => ({ type: "LOG", success: true, data })));
      if (wanted.length > 0 && wanted.length < 120) some++;
      sockets[n]!.ws.terminate();
    }
    expect(some).toBeGreaterThan(queries.length / 4);
    await expect.poll(() => world.listeners()).toBe(0);
  });

  it("sends only what fits of a snapshot with many long records, the newest", async () => {
    const world = await openWorld({ socketBufferBytes: 40_000 });
    world.write(Array.from({ length: 50 }, () => ({ ...plans[0]!, pad: 1_000 })));
    const socket = await world.server.socket(`${socketPath}?limit=50`);
    const { data } = await socket.next();
    expect(data.length).toBeGreaterThan(10);
    expect(JSON.stringify(data).length).toBeLessThan(40_000);
    expect(data).toEqual(world.written.slice(-data.length).map(toRecord));
    socket.close();
  });
});

describe("masked fields", () => {
  const hooks: AgentHooks = {
    onStart: ({ context }) => context.logger.info("Beginning"),
    onEnd: ({ context }) => context.logger.info("Ending"),
  };
  const agent = defineAgent({ id: "of-one", instructions: "", model: echoModel(), hooks });
  const workflow = defineWorkflow({ id: "one" })
    .andThen({ id: "say", execute: ({ logger }) => void logger.info("Said", { own: true }) })
    .andAgent({ id: "ask", agent, prompt: "look" })
    .andThen({ id: "fail", execute: () => Promise.reject(new Error("no")) });

  it("shows an anonymous reader no masked field under any filter, over HTTP, in snapshots and live", async () => {
    const secret = "a secret of at least thirty-two bytes";
    const server = await startTestServer("start", { config: { workflows: [workflow], auth: jwtAuth({ secret }) } });
    const headers = { authorization: `Bearer ${await createToken({ sub: "ada" }, secret)}` };
    const run = async (executionId: string) =>
      server.post("/workflows/one/execute", { input: {}, options: { executionId, conversationId: "c" } }, { headers });
    await run("e1");
    const secrets = ["executionId", "userId", "conversationId", "data", "error"];
    const shown = (records: object[]) =>
      secrets.filter((name) => records.some((record) => Object.hasOwn(record, name)));
    const asked: Query[] = [
      {},
      { level: "info" },
      { workflowId: "one" },
      { agentId: "of-one" },
      { executionId: "e2" },
      { since: "0", until: "999999999999999", limit: "1000" },
    ];
    for (const query of asked) {
      const path = toSearch(query);
      const live = await server.socket(`/ws/logs?${path}`);
      const known = await server.socket(`/ws/logs?${path}`, { headers });
      const [{ data: snapshot }, { data: whole }] = [await live.next(), await known.next()];
      expect(shown(snapshot), path).toEqual([]);
      expect(shown((await server.get(`/api/logs?${path}`)).body.data), path).toEqual([]);
      expect(snapshot.map((one: Written) => one.seq)).toEqual(whole.map((one: Written) => one.seq));
      if (query.executionId) continue;
      expect(shown(whole)).toEqual(expect.arrayContaining(["executionId", "userId", "conversationId"]));
      await run(`live-${asked.indexOf(query)}`);
      const got = (await readAll(live)).map(({ data }) => data);
      expect(got.length).toBeGreaterThan(1);
      expect(shown(got), path).toEqual([]);
      expect(shown((await readAll(known)).map(({ data }) => data))).toContain("executionId");
      live.close();
      known.close();
    }
    const named = await server.socket("/ws/logs?executionId=e1");
    const { data } = await named.next();
    expect(shown(data)).toEqual(expect.arrayContaining(["executionId", "userId", "conversationId", "data"]));
    named.close();
  });
});

function sizeOf(records: readonly Written[]): number {
  return records.reduce((sum, record) => sum + Buffer.byteLength(JSON.stringify(toRecord(record))), 0);
}
