import { expect, it } from "vitest";
import { within } from "../../harness/waiting.ts";
import { describeAgents, expectHealthy, expectIdle, newPrompt, provider, visit } from "./provider-suite.ts";
import { endpoints, streams } from "./troubles.ts";

describeAgents("a client that leaves", { only: ["in process", "dev", "start"] }, (server, ask) => {
  const rows = [
    ...endpoints.map((endpoint) => ({ endpoint, id: "silent", when: "before anything has come" })),
    ...endpoints.map((endpoint) => ({ endpoint, id: "silent-body", when: "before the model has said anything" })),
    ...streams.map((endpoint) => ({ endpoint, id: "mid-silent", when: "in the middle of the answer" })),
    ...streams.map((endpoint) => ({ endpoint, id: "mid-dripping", when: "while the model says nothing" })),
  ];
  it.for(rows)("ends the request to the provider when a client leaves $endpoint $when", async ({ endpoint, id }) => {
    const prompt = newPrompt();
    const client = visit(server, endpoint, id, prompt);
    const exchange = await within(provider.reached(prompt));
    if (id.startsWith("mid-")) await within(exchange.seen);
    client.leave();
    expect(await within(exchange.closed)).toBe("cut");
    await expectIdle(server, id);
    const next = newPrompt();
    expectHealthy(endpoint, next, await ask(endpoint, "healthy", next));
  });

  it.for(endpoints)("does not wait for the next attempt when a client leaves %s", async (endpoint) => {
    const prompt = newPrompt();
    const client = visit(server, endpoint, "retry-later", prompt);
    expect(await within(provider.reached(prompt).then(({ closed }) => closed))).toBe("answered");
    client.leave();
    await expectIdle(server, "retry-later");
    expect(provider.asked(prompt)).toHaveLength(1);
  });

  it("logs no error when a client leaves", () => {
    expect(server.logs.filter(({ level }) => level === "error")).toEqual([]);
  });
});
