import { once } from "node:events";
import { describe, expect, it, onTestFinished } from "vitest";
import WebSocket from "ws";
import { bySize } from "../../harness/size.ts";
import { startHost } from "../../harness/start-host.ts";
import { within } from "../../harness/waiting.ts";
import { openWorld, readAll, socketPath, type World } from "./world.ts";

const bounds = { logRecords: 5_000, logBytes: 2_097_152, socketBufferBytes: 1_048_576 };
/** Fewer than the ring holds: whoever has read one part before the next is written can miss nothing. */
const part = 2_500;

/** What came over a socket: how many records, and whether each one followed the one before. */
interface Reader {
  readonly ws: WebSocket;
  received: number;
  dropped: number;
  /** The numbers of the last record and, if it was so, of what was wrong with the order. */
  last: number;
  readonly wrong: string[];
  /** Resolves once it has been told of this many, one way or the other. */
  has(many: number): Promise<void>;
}

async function openReader(url: string, { step = 1, filter = "" } = {}): Promise<Reader> {
  const ws = new WebSocket(`${url.replace("http", "ws")}/ws/logs?limit=1&${filter}`);
  onTestFinished(() => ws.terminate());
  let wake = (): void => {};
  let wanted = Infinity;
  let gap = 0;
  const reader: Reader = {
    ws,
    received: 0,
    dropped: 0,
    last: 0,
    wrong: [],
    async has(many) {
      wanted = many;
      if (reader.received + reader.dropped >= many) return;
      await new Promise<void>((resolve) => (wake = resolve));
    },
  };
  ws.on("message", (message) => {
    const { type, data } = JSON.parse(String(message));
    if (type === "LOGS_SNAPSHOT") return;
    if (type === "DROPPED") {
      reader.dropped += data.count;
      if (!(data.count > 0) || gap > 0) reader.wrong.push(`DROPPED ${data.count} after ${reader.last}`);
      gap = data.count;
    } else {
      const { n } = data.data;
      reader.received++;
      // What was dropped is exactly what is missing here.
      if (n !== reader.last + step * (gap + 1)) reader.wrong.push(`${n} after ${reader.last} and ${gap} dropped`);
      reader.last = n;
      gap = 0;
    }
    if (reader.received + reader.dropped >= wanted) wake();
  });
  await once(ws, "open");
  return reader;
}

async function openHost() {
  const execArgv = ["--expose-gc", "--min-semi-space-size=2", "--max-semi-space-size=2"];
  const host = await startHost("test/observability/logs/written-records-app.ts", { bounds }, { execArgv });
  const { url } = host;
  return {
    url,
    readHeap: async (): Promise<number> => (await host.memory()).heap,
    async write(many: number): Promise<void> {
      expect((await fetch(`${url}/write?many=${many}`, { method: "POST" })).status).toBe(200);
    },
  };
}

describe("a reader of /ws/logs that does not read", () => {
  it(
    "bounds the memory of a log reader that does not read, and tells it exactly what it missed",
    async () => {
      const { url, readHeap, write } = await openHost();
      const fast = await Promise.all([openReader(url), openReader(url)]);
      const thirds = await openReader(url, { step: 3, filter: "agentId=third" });
      const slow = await openReader(url);
      const slowThird = await openReader(url, { step: 3, filter: "agentId=third" });
      const total = bySize(50_000, 300_000);
      let written = 0;
      const writePart = async () => {
        await write(part);
        written += part;
        const all = fast.map((reader) => reader.has(written));
        await Promise.all([...all, thirds.has(Math.floor(written / 3))]);
      };
      // Until everything is compiled and the ring is full.
      for (let n = 0; n < 4; n++) await writePart();
      const before = await readHeap();
      slow.ws.pause();
      slowThird.ws.pause();
      // The ring is full already. What may be added: for each of five sockets what it may have waiting, and once more as frames;
      // and 4 MiB for what the runtime does as it likes (compiled code, a young generation of 3 × 2 MiB is not in it after a collection).
      const bound = 5 * 2 * bounds.socketBufferBytes + 4 * 1_048_576;
      let most = 0;
      for (let parts = written / part + 1; parts <= total / part; parts++) {
        await writePart();
        if (parts % 10 === 0) most = Math.max(most, (await readHeap()) - before);
      }
      console.log(`a reader that does not read: ${Math.round(most / 1024)} KiB more, of ${bound / 1024} allowed`);
      expect(most).toBeLessThan(bound);
      for (const reader of fast) {
        expect(reader.wrong).toEqual([]);
        expect([reader.received, reader.dropped, reader.last]).toEqual([total, 0, total]);
      }
      expect([thirds.wrong, thirds.received, thirds.dropped]).toEqual([[], Math.floor(total / 3), 0]);

      const held = slow.received;
      slow.ws.resume();
      slowThird.ws.resume();
      await Promise.all([slow.has(total), slowThird.has(Math.floor(total / 3))]);
      expect(slow.wrong).toEqual([]);
      expect(slow.dropped).toBeGreaterThan(0);
      expect(held).toBeLessThan(total / 2);
      expect([slow.received + slow.dropped, slow.last]).toEqual([total, total]);
      expect([slowThird.wrong, slowThird.received + slowThird.dropped]).toEqual([[], Math.floor(total / 3)]);

      // And from then on it is a reader like any other.
      await writePart();
      await slow.has(written);
      expect([slow.wrong, slow.received + slow.dropped, slow.last]).toEqual([[], written, written]);
    },
    bySize(120_000, 300_000),
  );

  it.each([1_000, 20_000, 100_000, 1_048_576])(
    "cuts a slow log reader or tells it what it missed, with a socketBufferBytes of %i",
    async (socketBufferBytes) => {
      const world = await openWorld({ socketBufferBytes, logRecords: 100_000 });
      const socket = await world.server.socket(socketPath);
      await socket.next();
      socket.ws.pause();
      const pad = "x".repeat(4_000);
      const many = 4_000; // more than the kernel takes
      for (let n = 1; n <= many; n++) {
        world.logs.logger.info("Written", { n, pad });
        if (n % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      socket.ws.resume();
      let last = 0;
      const read = async () => {
        let dropped = 0;
        while (last < many) {
          const { type, data } = await socket.next();
          if (type === "DROPPED") dropped += data.count;
          else {
            expect(data.data.n).toBe(last + dropped + 1);
            last = data.data.n;
            dropped = 0;
          }
        }
        return "all";
      };
      const ended = Promise.race([read(), socket.closed.then(() => "cut")]);
      expect(await within(ended, () => `the next message after ${last}`)).toMatch(/^(all|cut)$/);
      socket.ws.terminate();
    },
  );
});

it("tells a reader how many records were evicted in the turn in which they were logged", async () => {
  const world = await openWorld({ logRecords: 10 });
  const socket = await world.server.socket(socketPath);
  await socket.next();
  for (let n = 0; n < 30; n++) world.logs.logger.info("Written", { n });
  const [dropped, ...records] = await readAll(socket);
  expect(dropped).toEqual({ type: "DROPPED", success: true, data: { count: 20 } });
  expect(records.map(({ data }) => data.seq)).toEqual(Array.from({ length: 10 }, (_, n) => 21 + n));
  socket.close();
});

describe("readers that leave", () => {
  const write = ({ logs }: World, many: number) => {
    for (let n = 0; n < many; n++) logs.logger.info("Written", { n });
  };

  it("forgets log readers that leave in the middle of records, and serves the others", async () => {
    const world = await openWorld();
    const open = () => world.server.socket(socketPath);
    const stays = await open();
    const [polite, rude, stuck] = [await open(), await open(), await open()];
    await expect.poll(() => world.listeners()).toBe(4);
    stuck.ws.pause();
    write(world, 5_000);
    polite.close();
    rude.ws.terminate();
    write(world, 2_000);
    await expect.poll(() => world.listeners()).toBe(2);
    stuck.ws.terminate();
    await expect.poll(() => world.listeners()).toBe(1);
    write(world, 10);
    expect(await stays.next()).toMatchObject({ type: "LOGS_SNAPSHOT" });
    const got = [];
    while (got.length < 7_010) got.push(await stays.next());
    expect(got.map(({ data }) => data.seq)).toEqual(Array.from({ length: 7_010 }, (_, n) => n + 1));
    stays.close();
    await expect.poll(() => world.listeners()).toBe(0);
  });

  it("keeps no listener of log readers that left, however many come and however they go", async () => {
    const world = await openWorld();
    const stays = await world.server.socket(socketPath);
    const { url } = await world.server.send("/workflows", {});
    const address = `${new URL(url).origin.replace("http", "ws")}${socketPath}`;
    let left = bySize(200, 2_000);
    let written = 0;
    const comeAndGo = async () => {
      while (left-- > 0) {
        const kind = left % 4;
        const ws = new WebSocket(`${address}?limit=5&level=${left % 2 ? "info" : "warn"}`);
        ws.on("error", () => {});
        const closed = new Promise((resolve) => ws.on("close", resolve));
        if (kind !== 0) await once(ws, "open"); // else it leaves during the handshake
        write(world, 1);
        written++;
        if (kind === 1) await once(ws, "message");
        if (kind === 3) ws.close();
        else ws.terminate();
        await closed;
      }
    };
    await Promise.all(Array.from({ length: 20 }, comeAndGo));
    await expect.poll(() => world.listeners()).toBe(1);
    const got = await readAll(stays);
    expect(got.length).toBe(written + 1);
    expect(got.slice(1).map(({ data }) => data.seq)).toEqual(Array.from({ length: written }, (_, n) => n + 1));
    stays.close();
    await expect.poll(() => world.listeners()).toBe(0);
  });

  it("forgets log readers when the server closes", async () => {
    const world = await openWorld();
    const sockets = await Promise.all([1, 2, 3].map(() => world.server.socket(socketPath)));
    await world.server.close();
    expect(await Promise.all(sockets.map((socket) => socket.closed))).toEqual([1001, 1001, 1001]);
    await expect.poll(() => world.listeners()).toBe(0);
    write(world, 10); // and nobody fails at it
  });
});
