import { andAgent, andThen, defineAgent, defineTool, defineWorkflow, embedded } from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { hour, newFile, query, serve } from "../../workflows/waits/serve.ts";
import { until } from "../../harness/waiting.ts";
import { calls } from "./turns.ts";

// These look into the file of the embedded backend.
const namesIn = (file: string): string[] =>
  query<{ name: string }>(file, "select name from records order by n").map(({ name }) => name);

/** An agent that waits in its second tool until it is released. */
function createWaiting() {
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<string>();
  const inputSchema = v.object({});
  const agent = defineAgent({
    id: "a",
    instructions: "x",
    model: scriptedModel([calls(["quick", "c1"]), calls(["waits", "c2"]), "done"]),
    tools: {
      quick: defineTool({ description: "Is quick", inputSchema, execute: () => 1 }),
      waits: defineTool({ description: "Waits", inputSchema, execute: () => (reached.resolve(), released.promise) }),
    },
  });
  return { agent, reached: reached.promise, release: () => released.resolve("released") };
}

it("removes the records of a step from the file with the commit of its result", async () => {
  const file = newFile();
  const { agent, reached, release } = createWaiting();
  const workflow = defineWorkflow({ id: "w" })
    .andAgent({ id: "ask", agent, prompt: "go" })
    .andThen({ id: "wait", execute: ({ suspend }) => suspend("ok?") });
  const server = serve({ agents: [agent], workflows: [workflow] }, { file });
  await server.begin("w");
  await reached;
  expect(namesIn(file)).toEqual(["start", "model#0", "tool c1", "model#1"]);
  release();
  await until(async () => (await server.state("w")).status === "suspended", "the next step");
  expect(namesIn(file)).toEqual([]);
});

it("removes the records of an attempt without a result with the execution, at the end of its retention", async () => {
  const file = newFile();
  const { agent, reached } = createWaiting();
  const workflow = defineWorkflow({ id: "w" }).andAll({
    id: "both",
    steps: [
      andAgent({ id: "ask", agent, prompt: "go" }),
      andThen({ id: "fails", execute: () => reached.then(() => Promise.reject(new Error("no"))) }),
    ],
  });
  const backend = embedded({ path: file, retention: "2h" });
  const server = serve({ agents: [agent], workflows: [workflow], backend }, { file });
  await server.begin("w");
  await until(async () => (await server.state("w")).status === "error", "the failure");
  expect(namesIn(file)).toHaveLength(4);
  for (let hours = 0; hours < 5; hours++) await server.clock.advance(hour);
  await until(async () => (await server.state("w")) === undefined, "the end of the retention");
  expect(namesIn(file)).toEqual([]);
});

it("records no result of a tool that ends after its attempt has timed out", async () => {
  const file = newFile();
  const { agent, reached, release } = createWaiting();
  const next = Promise.withResolvers<void>();
  const ends = Promise.withResolvers<void>();
  const workflow = defineWorkflow({ id: "w" })
    .andAgent({ id: "ask", agent, prompt: "go", timeout: 1_000, retry: { attempts: 2, delay: 0 } })
    .andThen({ id: "next", execute: () => (next.resolve(), ends.promise) });
  const server = serve({ agents: [agent], workflows: [workflow] }, { file });
  await server.begin("w");
  await reached;
  await server.clock.advance(1_000);
  await next.promise;
  release();
  await new Promise(setImmediate);
  ends.resolve();
  await until(async () => (await server.state("w")).status === "completed", "the end");
  expect(namesIn(file)).toEqual([]);
});
