// Each of these changes makes tests of this file fail: a token that is remembered although its key was withdrawn; a read
// for each unknown key; a read that begins while another is in flight; keys that are never read again.
import { describe, expect, it } from "vitest";
import { bySize } from "../../harness/size.ts";
import { until } from "../../harness/waiting.ts";
import { createWorld, type World } from "./world.ts";

const minute = 60_000;

describe("an issuer that rotates its keys", () => {
  it.each(["in process", "start"] as const)(
    "under load gives no wrong answer, with one read each (%s)",
    async (target) => {
      const world = await createWorld({ target });
      const { issuer, clock, ask } = world;
      await ask(issuer.mint());
      const load = startLoad(world, 8);
      const rotations = bySize(40, 200);
      const withdrawn = [];
      for (let n = 1; n <= rotations; n++) {
        clock.advance(minute);
        const old = issuer.keys[1];
        const oldToken = old && issuer.mint({ sub: `old-${n}` }, {}, old);
        // It is known, and remembered, until its key is withdrawn.
        if (oldToken) expect(await ask(oldToken)).toMatchObject({ status: 200, user: `old-${n}` });
        issuer.rotate();
        expect(await ask(issuer.mint())).toMatchObject({ status: 200, user: "ada" });
        if (oldToken) withdrawn.push(oldToken);
        for (const token of withdrawn.slice(-3))
          expect(await ask(token)).toMatchObject({ status: 401, error: "Invalid token: unknown key" });
        expect(issuer.count).toEqual({ discovery: 1, keys: n + 1 });
      }
      const { answers, wrong } = await load.stop();
      expect(wrong).toEqual([]);
      expect(answers).toBeGreaterThan(rotations);
      expect(issuer.count).toEqual({ discovery: 1, keys: rotations + 1 });
    },
  );

  it("asks the issuer once for the new key of many simultaneous requests", async () => {
    const { issuer, clock, ask } = await createWorld();
    await ask(issuer.mint());
    clock.advance(minute);
    issuer.rotate();
    const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => ask(issuer.mint({ sub: `user-${n}` }))));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 100 }, () => 200));
    expect(issuer.count).toEqual({ discovery: 1, keys: 2 });
  });

  it("asks the issuer again for a new key that appears while old keys are read because of their age", async () => {
    const { issuer, clock, ask } = await createWorld();
    const before = issuer.mint();
    await ask(before);
    clock.advance(10 * minute);
    let release = (): void => {};
    const held = issuer.keys;
    issuer.answer = (request, response) => {
      if (request.url !== "/keys")
        return void response.end(JSON.stringify({ issuer: issuer.url, jwks_uri: `${issuer.url}/keys` }));
      release = () => void response.end(JSON.stringify({ keys: held.map(({ jwk }) => jwk) }));
    };
    const first = ask(before);
    await until(() => issuer.count.keys === 2, "the read because of the age");
    issuer.rotate();
    issuer.answer = undefined;
    const second = ask(issuer.mint());
    release();
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
    expect(issuer.count.keys).toBe(3);
  });

  it("asks the issuer again when a signature matches no key without a kid", async () => {
    const { issuer, clock, ask } = await createWorld();
    const strip = () =>
      void (issuer.keys = issuer.keys.slice(0, 1).map((key) => ({ ...key, jwk: { ...key.jwk, kid: undefined } })));
    strip();
    expect(await ask(issuer.mint({}, { kid: undefined }))).toMatchObject({ status: 200 });
    clock.advance(minute);
    issuer.rotate();
    strip();
    expect(await ask(issuer.mint({}, { kid: undefined }))).toMatchObject({ status: 200 });
    expect(issuer.count.keys).toBe(2);
  });
});

describe("a key that was withdrawn", () => {
  it("refuses a cached token once its key is missing in keys that were read because of their age", async () => {
    const { issuer, clock, ask } = await createWorld();
    const token = issuer.mint();
    expect(await ask(token)).toMatchObject({ status: 200 });
    issuer.rotate();
    issuer.rotate();
    clock.advance(10 * minute - 1);
    expect(await ask(token)).toMatchObject({ status: 200 });
    clock.advance(1);
    // The first request reads the keys, and the second one finds them read.
    for (const reads of [2, 3]) {
      expect(await ask(token)).toMatchObject({ status: 401, error: "Invalid token: unknown key" });
      expect(issuer.count).toEqual({ discovery: 2, keys: reads });
    }
  });

  it("refuses a withdrawn key also if the issuer publishes no keys at all", async () => {
    const { issuer, clock, ask } = await createWorld();
    const token = issuer.mint();
    await ask(token);
    issuer.keys = [{ ...issuer.keys[0]!, jwk: { kty: "oct", k: "c2VjcmV0", kid: issuer.keys[0]!.kid } }];
    clock.advance(10 * minute);
    expect(await ask(token)).toMatchObject({ status: 401, error: "Invalid token: unknown key" });
  });
});

/** Callers that always have a token of the current key. Each answer must be that of their own user. */
function startLoad({ issuer, ask }: World, callers: number) {
  const wrong: unknown[] = [];
  let answers = 0;
  const ended = new AbortController();
  const call = async (caller: number): Promise<void> => {
    const sub = `caller-${caller}`;
    while (!ended.signal.aborted) {
      const answer = await ask(issuer.mint({ sub, jti: String(answers) }));
      if (answer.status !== 200 || answer.user !== sub) wrong.push(answer);
      answers++;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const all = Promise.all(Array.from({ length: callers }, (_, n) => call(n)));
  return {
    async stop() {
      ended.abort();
      await all;
      return { answers, wrong };
    },
  };
}
