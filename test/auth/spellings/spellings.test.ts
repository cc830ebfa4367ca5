// Each of these changes makes tests of this file fail: a policy that looks at the text of the URL; a custom route that is asked
// before a built-in one; a HEAD that is no GET; an entry of `protect` that is compared as text; a preflight that passes; a method
// that a header or the query changes; a mounted app that is asked before the gate.
import { METHODS } from "node:http";
import { posix } from "node:path";
import { jwtAuth } from "agentserve";
import type { H3 } from "h3";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toProject } from "../../../src/config/load.ts";
import { openServer, type OpenServer } from "../../../src/server/create.ts";
import { Random } from "../../faults/kills/plan.ts";
import { createTestLogger, startServer, type LogRecord } from "../../harness/server.ts";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { shadows } from "./app.ts";
import { plain, spell, type Spelling } from "./make.ts";
import { morePlaces, moreSocketPlaces, places, socketPlaces, type Place } from "./places.ts";
import { rows, take } from "./sentinels.ts";
import { createInside, createLane, toBytes, type Reply, type Way } from "./wire.ts";
import { invalid, secret, toConfig, valid, type World } from "./world.ts";

const lanes = 8;
const worlds: readonly World[] = [
  { title: "opt-in mode" },
  { title: "opt-out mode", isOptOut: true },
  { title: "opt-in mode with cors: false", hasOwnCors: true },
  { title: "opt-out mode with cors: false", isOptOut: true, hasOwnCors: true },
  { title: "opt-in mode under a base path", basePath: "/api/ai" },
  { title: "opt-out mode under a base path", isOptOut: true, basePath: "/api/ai" },
  { title: "opt-out mode with cors: false under a base path", isOptOut: true, hasOwnCors: true, basePath: "/api/ai" },
];
const count = bySize(80, 800);
/** At quick size, each world has one of them, and the next world the other. */
const modesOf = (all: readonly World[], world: World) =>
  (["dev", "start"] as const).filter((_, n) => bySize(0, 1) === 1 || n === all.indexOf(world) % 2);

describe.each(worlds)("$title", (world) => {
  const more = morePlaces.map((place) => toPlace(place, world));
  const closed = [...places.map((place) => toPlace(place, world)), ...(world.isOptOut ? more : [])];
  const requests = createRequests(closed, count, seed + worlds.indexOf(world) * 7_919);

  describe.each(modesOf(worlds, world))("%s", (mode) => {
    const { server, logs } = useServer(world, mode);

    describe.each(["in process", "over a socket"] as const)("%s", (how) => {
      const open = (): Way => (how === "in process" ? createInside(server().fetch) : createLane(server().port));

      it("runs each route for a caller with a token, and none without", async () => {
        const way = open();
        for (const place of closed) {
          take();
          const { status = 0 } = (await way.ask(plain(place), valid)) ?? {};
          const isSeen = take().length > 0 || (status === 200 && more.includes(place));
          expect([place, isSeen]).toEqual([place, true]);
          const refused = await way.ask(plain(place), []);
          expect([place, refused?.status, take()]).toEqual([place, 401, []]);
        }
        way.close();
      });

      it(
        `runs nothing for an anonymous caller, however a path is spelt (${count} spellings)`,
        { timeout: 600_000 },
        async () => {
          const { without, allowed } = await askTwice(open, requests);
          const faults: string[] = [];
          const tally: Record<string, number> = {};
          let opened = 0;
          for (const [n, request] of requests.entries()) {
            const [refused, answered] = [without[n], allowed[n]];
            if (!refused || !answered) continue;
            faults.push(...findFaults(request, refused), ...findFaults(request, answered));
            // Whatever a token changes is closed; and what is closed says so.
            const isClosed = refused.status !== answered.status;
            if (isClosed && refused.status !== 401) faults.push(`${refused.status}, not 401, to ${print(request)}`);
            if (world.isOptOut && isAnswer(refused) && !isConsole(refused))
              faults.push(`${refused.status} for nobody, to ${print(request)}`);
            if (isClosed && answered.status < 400) opened++;
            tally[refused.status] = (tally[refused.status] ?? 0) + 1;
          }
          console.log(`${world.title}, ${mode}, ${how}: a token opens ${opened} of ${count};`, JSON.stringify(tally));
          expect(shorten(faults)).toEqual([]);
          expect(shadows).toEqual([]);
          expect(opened).toBeGreaterThan(count * 0.15);
          expect(await open().ask(plain(closed[0]!), valid)).toMatchObject({ status: 200 });
          expect(logs.filter(({ level }) => level === "error").slice(0, 3)).toEqual([]);
        },
      );
    });
  });
});

const socketWorlds: readonly World[] = [
  { title: "a WebSocket that protect closes" },
  { title: "a WebSocket in opt-out mode", isOptOut: true },
  { title: "any WebSocket with webSockets: true", webSockets: true },
  { title: "any WebSocket under a base path", webSockets: true, basePath: "/api/ai" },
];
const socketCount = bySize(80, 400);

describe.each(socketWorlds)("$title", (world) => {
  const all = world.webSockets ? [...socketPlaces, ...moreSocketPlaces] : socketPlaces;
  const closed = all.map((place) => toPlace(place, world));
  const requests = createRequests(closed, socketCount, seed + 1).map(({ spelling, signed }, n): Signed => {
    const method = n % 10 === 0 ? spelling.method : "GET";
    return { signed, spelling: { ...spelling, method, headers: handshake } };
  });

  describe.each(modesOf(socketWorlds, world))("%s", (mode) => {
    const { server } = useServer(world, mode);
    const open = (): Way => createLane(server().port);

    it(`opens no WebSocket for an anonymous caller, however a path is spelt (${socketCount} spellings)`, async () => {
      for (const place of closed) {
        const asked = { ...plain(place), headers: handshake };
        const isSocket = /^(\/api\/ai)?\/(live|ws|lobby)/.test(place.path);
        expect(await open().ask(asked, valid)).toMatchObject({ status: isSocket ? 101 : 400 });
        expect(await open().ask(asked, [])).toMatchObject({ status: 401 });
      }
      const { without, allowed } = await askTwice(open, requests);
      const faults: string[] = [];
      let opened = 0;
      for (const [n, request] of requests.entries()) {
        const [refused, answered] = [without[n]!, allowed[n]!];
        faults.push(...findFaults(request, refused));
        if (refused.status === 101) faults.push(`opened for nobody: ${print(request)}`);
        if (answered.status !== 101) continue;
        if (refused.status !== 401) faults.push(`${refused.status}, not 401, to ${print(request)}`);
        opened++;
      }
      console.log(`${world.title}, ${mode}: a token opens ${opened} of ${socketCount}`);
      expect(shorten(faults)).toEqual([]);
      expect(opened).toBeGreaterThan(socketCount * 0.1);
      expect(await open().ask(plain(toPlace(places[0]!, world)), valid)).toMatchObject({ status: 200 });
    });
  });
});

const toPlace = (place: Place, { basePath = "" }: World): Place => ({ ...place, path: basePath + place.path });

describe("an entry of protect", () => {
  const start = async (protect: string[], configureApp: (app: H3) => void) =>
    startServer("start", { config: { auth: jwtAuth({ secret, protect }), configureApp } });

  it("closes a route for every method that a socket carries by entries of protect", async () => {
    const protect = METHODS.filter((method) => method !== "HEAD").map((method) => `${method} /any`);
    const server = await start(protect, (app) => void app.all("/any", () => "any"));
    for (const method of METHODS.filter((name) => name !== "CONNECT")) {
      const answer = await server.raw(`${method} /any HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      expect([method, answer.slice(9, 12)]).toEqual([method, "401"]);
    }
    await server.close();
  });

  it.each(["/%7Eada", "/~ada", "/a%2Db/:id", "/caf%C3%A9", "/café", "/a/../b", "/x%2Fy"])(
    "closes a route by an entry of protect with the same pattern: %s",
    async (path) => {
      const server = await start([`GET ${path}`], (app) => void app.get(path, () => "mine"));
      const url = new URL(path.replace(":id", "1"), "http://localhost");
      expect([path, (await server.send(url.pathname, {})).status]).toEqual([path, 401]);
      await server.close();
    },
  );

  it.each(["ALL", "ANY"])("closes a route by an entry of protect for %s, or refuses the entry", async (method) => {
    const server = await start([`${method} /any`], (app) => void app.all("/any", () => "any")).catch(() => undefined);
    if (server) expect((await server.send("/any", {})).status).toBe(401);
    await server?.close();
  });
});

describe("an entry of publicRoutes", () => {
  it.each([
    "/files/public/..%2fsecret",
    "/files/public/%252e%252e/secret",
    "/files/public/..%5csecret",
    "/files/public/..%2fsecret%2f%5c..%2fpublic/x",
    "/files/public/..%2fsecret%2f%252e%252e%2fpublic/x",
  ])("does not open by publicRoutes what a wildcard handler may read in %s", async (path) => {
    const auth = jwtAuth({ secret, publicRoutes: ["GET /files/public/*"], protect: ["GET /files/*"] });
    const seen: string[] = [];
    const configureApp = (app: H3): void =>
      void app.get("/files/**", ({ url }) => void seen.push(posix.normalize(decodeURIComponent(url.pathname))));
    const server = await startServer("start", { config: { auth, configureApp } });
    await server.raw(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    expect(seen.filter((file) => file.startsWith("/files/secret"))).toEqual([]);
    await server.close();
  });
});

describe("invalid URLs", () => {
  it("answers 400 to an invalid Host header in a mounted app", async () => {
    const configureApp = (app: H3): void => void app.mount("/fetch", () => new Response("fetched"));
    const server = await startServer("start", { config: { configureApp } });
    const answer = await server.raw("GET /fetch/x HTTP/1.1\r\nHost: x:99999\r\n\r\n");
    expect([answer.slice(9, 12), server.logs]).toEqual(["400", []]);
    await server.close();
  });

  it("answers a preflight for a broken escape in the envelope with cors: false", async () => {
    const server = await startServer("in process", { config: { server: { cors: false } } });
    const headers = { origin: "http://a.test", "access-control-request-method": "GET" };
    const response = await server.send("/%ff", { method: "OPTIONS", headers });
    expect([response.status, await response.json()]).toEqual([400, { success: false, error: expect.any(String) }]);
    await server.close();
  });
});

interface Signed {
  readonly spelling: Spelling;
  /** Headers with a token that is no good. */
  readonly signed: readonly string[];
}

function createRequests(closed: readonly Place[], length: number, from: number): Signed[] {
  const random = new Random(from);
  return Array.from({ length }, () => {
    return { spelling: spell(random, random.pick(...closed)), signed: random.pick(...invalid) };
  });
}

const handshake =
  "Connection: Upgrade|Upgrade: websocket|Sec-WebSocket-Version: 13|Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==".split(
    "|",
  );

function useServer(world: World, mode: "dev" | "start") {
  const logs: LogRecord[] = [];
  let server: OpenServer;
  let port: number;
  beforeAll(async () => {
    server = openServer(toProject(toConfig(world)), { mode, extraRoutes: rows, logger: createTestLogger(logs) });
    ({ port } = await server.listen({ port: 0 }));
  });
  afterAll(() => server.close());
  return { logs, server: () => ({ fetch: server.fetch, port }) };
}

/** Everything without a token that is any good, then with one. Throws when a sentinel sees the former. */
async function askTwice(open: () => Way, requests: readonly Signed[]) {
  take();
  const without = await askAll(open, requests);
  const ran = take();
  if (ran.length > 0) {
    const found = await findThose(open(), requests);
    throw new Error(`SEED=${seed}: ran for nobody: ${[...new Set(ran)].join(", ")}\n${found.join("\n")}`);
  }
  const allowed = await askAll(open, requests.map(({ spelling }) => ({ spelling, signed: valid }))); // prettier-ignore
  take();
  return { without, allowed };
}

async function askAll(open: () => Way, requests: readonly Signed[]): Promise<(Reply | undefined)[]> {
  const replies: (Reply | undefined)[] = [];
  const left = requests.entries();
  async function run(): Promise<void> {
    const way = open();
    for (const [n, { spelling, signed }] of left) replies[n] = await way.ask(spelling, signed);
    way.close();
  }
  await Promise.all(Array.from({ length: lanes }, run));
  return replies;
}

/** One by one, the shortest of those that run something. */
async function findThose(way: Way, requests: readonly Signed[]): Promise<string[]> {
  const found: string[] = [];
  for (const request of requests) {
    const reply = await way.ask(request.spelling, request.signed);
    const ran = take();
    if (ran.length > 0) found.push(`${print(request)} ran ${ran.join(", ")} and got ${reply?.status}`);
  }
  return shorten(found);
}

const print = ({ spelling, signed }: Signed): string =>
  JSON.stringify(toBytes(spelling, signed).replace(/eyJ[\w.-]{20,}/g, "<token>"));
/** Something else than a refusal, the answer to a preflight, and what is open to all. */
const isAnswer = ({ status, head }: Reply): boolean => status < 400 && status !== 204 && !/^x-open: 1/m.test(head);

/** The console page, which holds no data: a browser gets it at `/`, and `GET http:/x` means that path of the host x. */
const isConsole = ({ text, head }: Reply): boolean =>
  text === "" ? head.includes("img-src 'self' data: blob:") : text.includes("console/assets/console.js");

/** What is wrong with an answer, whoever asked. */
function findFaults(request: Signed, { status, head, text }: Reply): string[] {
  if (status === 0) return [`no answer to ${print(request)}`];
  if (status < 400 || /^head$/i.test(request.spelling.method)) return [];
  const isEnvelope =
    /^content-type: application\/json/im.test(head) && /^\{"success":false,"error":"(?:[^"\\]|\\.)+"\}$/.test(text);
  return isEnvelope ? [] : [`${status} ${JSON.stringify(text)}, not in the envelope, to ${print(request)}`];
}

const shorten = (faults: readonly string[]): string[] =>
  [...new Set(faults)].toSorted((a, b) => a.length - b.length).slice(0, 10);
