import { describe, expect, it } from "vitest";
import { honest } from "./attacks.ts";
import { openHost, type Host } from "./schema-host.ts";
import { attack, checkVerdict, endpoints, object, type Attack, type Json } from "./verdict.ts";

const round = (number: number): number => Math.round(number * 100) / 100;

describe("One request does not stop the server", () => {
  async function withHost(test: (host: Host) => Promise<void>, limits: Json = {}): Promise<void> {
    const host = await openHost(limits);
    try {
      for (const one of honest) checkVerdict(one, "object", await host.ask("object", one));
      await test(host);
      for (const one of honest) checkVerdict(one, "object", await host.ask("object", one));
    } finally {
      await host.close();
    }
  }
  const aaa = { a: "aaaaaaaaaa" };

  it("the server survives a request with a pattern that overruns the stack of the regular expression compiler", () =>
    withHost(async (host) => {
      const one = attack("a long pattern", object({ a: { pattern: `${"a*".repeat(30_000)}b` } }), aaa, 400);
      for (const endpoint of endpoints) checkVerdict(one, endpoint, await host.ask(endpoint, one));
    }));

  it("the server survives a request with a pattern that is first compiled deep inside a value", () =>
    withHost(async (host) => {
      const schema = object({ a: { $ref: "#" }, b: { pattern: `${"a*".repeat(4_000)}b` } });
      for (let depth = 500; depth <= 3_500; depth += 500) {
        const says = `${'{"a":'.repeat(depth)}{"b":"aa"}${"}".repeat(depth)}`;
        const one = attack(`a pattern ${depth} levels deep`, schema, says, 400, 502);
        checkVerdict(one, "object", await host.ask("object", one));
      }
    }));

  it("the server survives a request with errors that fill the memory", () =>
    withHost(
      async (host) => {
        for (const length of [300, 3_000, 30_000, 60_000]) {
          const schema = object({ a: { contains: { enum: ["x".repeat(length)] } } });
          const one = attack(
            `errors of ${length} bytes`,
            schema,
            { a: Array.from({ length: 50_000 }, () => 0) },
            400,
            502,
          );
          checkVerdict(one, "object", await host.ask("object", one));
        }
      },
      { schemaMs: 1_500 }, // so that the memory ends before the time, however slow the machine
    ));

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

  it.each(endpoints)(
    "the server survives a request with an answer nested so deep that it cannot be written again (%s)",
    (endpoint) =>
      withHost(async (host) => {
        const says = `${'{"a":'.repeat(20_000)}1${"}".repeat(20_000)}`;
        const one = attack("a deep answer", { type: "object" }, says, 200, 502);
        checkVerdict(one, endpoint, await host.ask(endpoint, one));
      }),
  );

  it("the server survives a request with braces that echoModel takes for JSON", () =>
    withHost(async (host) => {
      const one: Attack = { ...attack("braces", { type: "object" }, "{".repeat(50_000), 200), agent: "echo" };
      const { cpu } = await host.probe();
      checkVerdict(one, "object", await host.ask("object", one));
      expect((await host.probe()).cpu - cpu).toBeLessThan(1_000);
    }));
});
