import { describe, expect, it, onTestFinished } from "vitest";
import { honest } from "./attacks.ts";
import { openHost, type Host } from "./schema-host.ts";
import { attack, checkVerdict, endpoints, object, type Attack, type Json } from "./verdict.ts";

const round = (number: number): number => Math.round(number * 100) / 100;

describe("One request does not stop the server", () => {
  async function withHost(test: (host: Host) => Promise<void>, constants: Json = {}): Promise<void> {
    const host = await openHost(constants);
    onTestFinished(() => host.close());
    for (const one of honest) checkVerdict(one, "object", await host.ask("object", one));
    await test(host);
    for (const one of honest) checkVerdict(one, "object", await host.ask("object", one));
  }
  const aaa = { a: "aaaaaaaaaa" };
  const nested = (depth: number, inner: string): string => `${'{"a":'.repeat(depth)}${inner}${"}".repeat(depth)}`;
  const late = object({ a: { $ref: "#" }, b: { pattern: `${"a*".repeat(4_000)}b` } });
  const zeros = Array.from({ length: 50_000 }, () => 0);
  const containing = (length: number): Json => object({ a: { contains: { enum: ["x".repeat(length)] } } });

  it.each<[what: string, attacks: Attack[], constants?: Json]>([
    [
      "a pattern that overruns the stack of the regular expression compiler",
      [attack("a long pattern", object({ a: { pattern: `${"a*".repeat(30_000)}b` } }), aaa, 400)],
    ],
    [
      "a pattern that is first compiled deep inside a value",
      [500, 1_000, 1_500, 2_000, 2_500, 3_000, 3_500].map((depth) =>
        attack(`a pattern ${depth} levels deep`, late, nested(depth, '{"b":"aa"}'), 400, 502),
      ),
    ],
    [
      "errors that fill the memory",
      [300, 3_000, 30_000, 60_000].map((length) =>
        attack(`errors of ${length} bytes`, containing(length), { a: zeros }, 400, 502),
      ),
      { schemaMs: 1_500 }, // so that the memory ends before the time, however slow the machine
    ],
    [
      "an answer nested so deep that it cannot be written again",
      [attack("a deep answer", { type: "object" }, nested(20_000, "1"), 200, 502)],
    ],
  ])("the server survives a request with %s", (_, attacks, constants) =>
    withHost(async (host) => {
      for (const endpoint of endpoints)
        for (const one of attacks) checkVerdict(one, endpoint, await host.ask(endpoint, one));
    }, constants),
  );

  it("the server survives a request with patterns whose compilation cannot be interrupted: threads stay few, answers come", () =>
    withHost(async (host) => {
      const one = attack("a pattern", object({ a: { pattern: "\\p{L}".repeat(10_000) } }), aaa, 400, 502, 503);
      let most = 0;
      let rss = 0;
      const watch = setInterval(() => {
        const size = host.size();
        most = Math.max(most, size?.threads ?? 0);
        rss = Math.max(rss, size?.rss ?? 0);
      }, 20);
      const answers = await Promise.all(Array.from({ length: 20 }, () => host.askOnce("object", one)));
      clearInterval(watch);
      for (const answer of answers) checkVerdict(one, "object", answer);
      console.log(
        `20 such patterns: ${most} threads, ${round(rss / 1e6)} MB, ${round(Math.max(...answers.map(({ ms }) => ms)))} ms`,
      );
      expect(most).toBeLessThanOrEqual(20);
      expect(rss).toBeLessThan(800e6);
    }));

  it("the server survives a request with braces that echoModel takes for JSON", () =>
    withHost(async (host) => {
      const one: Attack = { ...attack("braces", { type: "object" }, "{".repeat(50_000), 200), agent: "echo" };
      const { cpu } = await host.probe();
      checkVerdict(one, "object", await host.ask("object", one));
      expect((await host.probe()).cpu - cpu).toBeLessThan(1_000);
    }));
});
