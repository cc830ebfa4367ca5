import { inspect } from "node:util";
import { expect, it } from "vitest";
import {
  describeAgents,
  expectFailure,
  expectHealthy,
  expectTrouble,
  messages,
  newPrompt,
  on,
  provider,
  show,
} from "./provider-suite.ts";
import { beforeTheAnswer, endpoints, withinTheAnswer } from "./troubles.ts";

describeAgents("a provider in trouble", { only: ["start"] }, (server, ask) => {
  it.for(on(beforeTheAnswer))("answers $endpoint with a plain $status for a provider that $does", (row) =>
    expectTrouble(server, ask, row),
  );
  it.for(on(withinTheAnswer))("ends $endpoint with a 502 or an error event for a provider that $does", (row) =>
    expectTrouble(server, ask, row),
  );

  it("logs what a provider sent, but not all of 10 MB", () => {
    const sizes = server.logs.map((record) => inspect(record, { depth: Infinity, maxStringLength: Infinity }).length);
    expect(Math.max(...sizes)).toBeLessThan(1_000_000);
  });

  it("shows every agent as idle after the provider has failed", async () => {
    const { body } = await server.get("/agents");
    expect(body.data.filter(({ status }: { status: string }) => status !== "idle")).toEqual([]);
  });

  const once = { "retry-429": { does: "says 429 once" }, "retry-500": { does: "says 500 once" } };
  it.for(on(once))("asks a provider again in $endpoint that $does", async ({ endpoint, id }) => {
    const prompt = newPrompt();
    expectHealthy(endpoint, prompt, await ask(endpoint, id, prompt));
    expect(provider.asked(prompt)).toHaveLength(2);
  });

  it.for(endpoints)("answers %s with 502 for a provider that fails in every attempt", async (endpoint) => {
    const prompt = newPrompt();
    expectFailure(endpoint, await ask(endpoint, "retry-both", prompt), 502, messages[502]);
    expect(provider.asked(prompt)).toHaveLength(2);
    expect(show(server.logs.filter(({ data }) => data?.["agentId"] === "retry-both"))).toMatch(
      /500[^]*on fire|on fire[^]*500/,
    );
  });
});
