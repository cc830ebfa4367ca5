import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { Target } from "../../harness/server.ts";
import { bySize } from "../../harness/size.ts";
import { start } from "./client.ts";
import type { Case } from "./faults.ts";
import { expected } from "./oracle.ts";
import { modes, type Mode } from "./oracle-modes.ts";
import { routes, type Route } from "./oracle-routes.ts";
import { shapes, tokens } from "./oracle-tokens.ts";
import { play } from "./play.ts";
import { mint } from "./tokens.ts";
import { createWorld } from "./world.ts";

/** `dev` differs from `start` by its host only: at full size. */
const targets = (["in process", "start", "dev"] as const).slice(0, bySize(2, 3));
const optIn = modes.find(({ name }) => name === "opt-in")!;

describe("the oracle", () => {
  it("has an oracle that names only routes that it lists, and none twice", () => {
    const names = routes.map(({ name }) => name);
    const named = modes
      .flatMap(({ publicRoutes = {}, protect = {} }) => [publicRoutes, protect].map(Object.values))
      .flat(2);
    expect(named.filter((name) => !names.includes(name))).toEqual([]);
    expect(new Set(names).size).toBe(names.length);
    expect(new Set([...tokens, ...shapes].map(({ name }) => name)).size).toBe(tokens.length + shapes.length);
  });
});

describe.each(targets)("the access of every route (%s)", (target) => {
  it.each(modes)("answers every route and token as the oracle says in the mode $name", async (mode) => {
    expect(await play(mode, target, toCases(mode, target))).toEqual([]);
  });
});

it.each(targets)("tells no token, several Authorization headers and other schemes apart (%s)", async (target) => {
  const route = routes.find(({ name }) => name === "GET /matrix/closed/7")!;
  const cases = shapes.map((token, n) => ({ key: `case-0-${n}`, route, token, due: expected(optIn, route, token) }));
  expect(await play(optIn, target, cases)).toEqual([]);
});

describe.each(["in process", "start"] as const)("a token that was verified before (%s)", (target) => {
  afterEach(() => void vi.useRealTimers());
  const hour = 3_600_000;

  it("refuses a cached token once it has expired, and accepts one from its nbf on", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const now = Date.now();
    const [early, late] = [mint({}), mint({ nbf: Math.floor((now + hour) / 1_000), exp: Math.floor(now / 500) })];
    const world = createWorld(optIn);
    const server = await start(target, world.config, world.rows);
    onTestFinished(() => server.close());
    const ask = async (path: string, token: string, key: string) => {
      const headers = [["authorization", `Bearer ${token}`] as const, ["x-case", key] as const];
      const { status, text } = await server.send({ method: "GET", path, headers });
      return [status, JSON.parse(text).error ?? null, world.seen.get(key) ?? []];
    };
    for (const key of ["now", "again"]) {
      expect(await ask("/matrix/closed/7", early, key)).toEqual([200, null, ["ada"]]);
    }
    expect(await ask("/matrix/closed/7", late, "too early")).toEqual([401, "Invalid token: not yet valid", []]);
    vi.setSystemTime(now + hour + 1_000);
    expect(await ask("/matrix/closed/7", early, "later")).toEqual([401, "Token expired", []]);
    expect(await ask("/matrix/open/7", early, "open")).toEqual([200, null, [null]]);
    expect(await ask("/matrix/closed/7", late, "in time")).toEqual([200, null, ["ada"]]);
  });
});

/**
 * Every route meets these, and of the others one in so many: neighbours meet different ones. `start` differs
 * from `in process` only by its listener: it gets a sample. Only `start` and `dev` have sockets.
 */
const always = ["none", "valid"];
const oneOf: Record<Target, number> = { "in process": bySize(160, 4), start: bySize(400, 12), dev: 6 };
const isWhole = (target: Target, { name }: Route): boolean =>
  target === "in process" || (target === "start" && (bySize(0, 1) === 1 || name.startsWith("UPGRADE")));

function toCases(mode: Mode, target: Target): Case[] {
  const cases: Case[] = [];
  const offset = modes.indexOf(mode) + (target === "start" ? 5 : 0);
  for (const [r, route] of routes.entries()) {
    // No handshake without a socket; and Node's parser knows no method in small letters.
    if (route.name.startsWith(target === "in process" ? "UPGRADE" : "patch")) continue;
    // Nobody can start an execution, or ask for what it takes to see it.
    if (mode.isDown && route.name.includes("{")) continue;
    for (const [t, token] of tokens.entries()) {
      const isChosen =
        (always.includes(token.name) && isWhole(target, route)) || (r + t + offset) % oneOf[target] === 0;
      const due = isChosen && expected(mode, route, token);
      if (!due || (!due.refused && isSlow(route, mode))) continue;
      cases.push({ key: `case-${r}-${t}`, route, token, due });
    }
  }
  return cases;
}

/** A server's first check of a client's schema starts a process: one mode is enough. */
const isSlow = ({ name }: Route, mode: Mode): boolean => name.endsWith("object") && mode !== optIn;
