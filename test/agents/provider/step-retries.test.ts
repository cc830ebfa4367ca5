import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { AgentError, defineAgent, defineWorkflow, ServeError } from "agentserve";
import { afterAll, expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { createProvider, type Behaviour } from "./provider.ts";
import { providerBody, refuses } from "./troubles.ts";

/** The error that a provider sends as a status, and as an event of a stream that has begun. */
const errorOf = (fields: object): string => JSON.stringify({ error: { message: providerBody, ...fields } });
const within =
  (line: string): Behaviour =>
  (exchange) => {
    exchange.open();
    exchange.delta({ role: "assistant", content: "The answer" });
    exchange.line(line);
  };

/** The failures of a model, and by hand from the rule: the number of attempts at a step that allows two. */
const failures: Record<string, [attempts: 1 | 2, behave: Behaviour]> = {
  "a bad request": [1, refuses(400, errorOf({ type: "invalid_request_error" }))],
  "a wrong key": [1, refuses(401, errorOf({ code: "invalid_api_key" }))],
  "a forbidden model": [1, refuses(403, errorOf({}))],
  "an unknown model": [1, refuses(404, errorOf({}))],
  "a prompt that is too long": [1, refuses(400, errorOf({ code: "context_length_exceeded" }))],
  "a body that is too large": [1, refuses(413, "")],
  "a request time-out": [2, refuses(408, errorOf({}))],
  "a rate limit": [2, refuses(429, errorOf({}))],
  "a failure of the provider": [2, refuses(500, errorOf({}))],
  "an overload": [2, refuses(529, errorOf({}))],
  "a page of a proxy": [2, refuses(503, "<!doctype html>")],
  "a reset connection": [2, ({ socket }) => void socket.resetAndDestroy()],
  "an answer that is not a stream": [2, ({ response }) => void response.writeHead(200).end("{")],
  "a stream that ends early": [2, (exchange) => (exchange.open(), void exchange.response.end("data: [DONE]\n\n"))],
  "a stream that breaks": [2, within('{"choices":')],
  "an overload within the stream": [2, within(errorOf({ type: "overloaded_error" }))],
  "a prompt that is too long, said within the stream": [1, within(errorOf({ code: "context_length_exceeded" }))],
  "a wrong key, said within the stream": [1, within(errorOf({ type: "authentication_error" }))],
  "a rate limit within the stream": [2, within(errorOf({ type: "rate_limit_error" }))],
  "a refusal with a number within the stream": [1, within(errorOf({ code: 400 }))],
};
const behaviours = Object.fromEntries(toRows().map(({ id, behave }) => [id, behave]));
const provider = await createProvider({ ...behaviours, silence: () => {} });
afterAll(() => provider.close());
function toRows() {
  return Object.entries(failures).map(([title, [attempts, behave]]) => {
    return { title, attempts, behave, id: title.replaceAll(/\W+/g, "-") };
  });
}

const models = createOpenAICompatible({ name: "provider", apiKey: "key", baseURL: provider.baseURL });
const retry = { attempts: 2 };
const agents = toRows().map(({ id }) => defineAgent({ id, instructions: "Answer", model: models(id), maxRetries: 0 }));
const workflows = agents.map((agent) =>
  defineWorkflow({ id: agent.id }).andAgent({
    id: "ask",
    agent,
    retry,
    prompt: ({ input }) => input["prompt"] as string,
  }),
);
let refused = 0;
const guarded = defineAgent({
  id: "guarded",
  instructions: "Answer",
  model: models("silence"),
  hooks: {
    onStart() {
      refused++;
      throw new ServeError(403, "Only on Mondays");
    },
  },
});
const hooked = defineWorkflow({ id: "hooked" }).andAgent({ id: "ask", agent: guarded, retry, prompt: "?" });
const unset = defineAgent({
  id: "unset",
  instructions: "Answer",
  // A model that is not set up throws when it is called.
  model: createOpenAICompatible({ name: "unset", baseURL: provider.baseURL, fetch: failing })("silence"),
});
let failed = 0;
function failing(): never {
  failed++;
  throw new TypeError("fetch failed");
}
const offline = defineWorkflow({ id: "offline" }).andAgent({
  id: "ask",
  agent: unset.with({ maxRetries: 0 }),
  retry,
  prompt: "?",
});
const silent = defineWorkflow({ id: "silent" }).andAgent({
  id: "ask",
  agent: defineAgent({ id: "silent", instructions: "Answer", model: models("silence") }),
  retry,
  prompt: ({ input }) => input["prompt"] as string,
});
/** Asks an agent from the code of a step, which may catch the error. */
const asks = defineWorkflow({ id: "asks" }).andThen({
  id: "ask",
  async execute({ input, runtime }) {
    try {
      return await runtime.ask(input["id"] as string, "?");
    } catch (error) {
      if (!input["catches"] || !(error instanceof AgentError)) throw error;
      return [error.status, error.message, error.retry];
    }
  },
});
const config = { agents, workflows: [...workflows, hooked, offline, asks] };

describeServer("an agent that fails in a step", { config, only: ["dev", "start"] }, (server) => {
  it.for(toRows())("runs a step $attempts times after $title", async ({ id, attempts }) => {
    const prompt = `${id} ${server.target}`;
    const answer = await server.post(`/workflows/${id}/execute`, { input: { prompt } });
    expect([answer.status, answer.body.error]).toEqual([500, "Failed to execute workflow"]);
    expect(answer.text, "the words of the provider").not.toContain(providerBody);
    expect(provider.asked(prompt)).toHaveLength(attempts);
  });

  it.for([
    ["a-rate-limit", 429, "Model rate limit reached", true],
    ["a-wrong-key", 502, "Model rejected the credentials", false],
    ["a-prompt-that-is-too-long", 400, "The conversation is too long for the model", false],
    ["a-stream-that-ends-early", 502, "Model call failed", true],
  ] as const)("throws %s as an AgentError %i in a step, and does not answer with that status", async (row) => {
    const [id, ...expected] = row;
    const caught = await server.post("/workflows/asks/execute", { input: { id, catches: true } });
    expect(caught.body.data.result).toEqual(expected);
    const thrown = await server.post("/workflows/asks/execute", { input: { id } });
    expect([thrown.status, thrown.body.error]).toEqual([500, "Failed to execute workflow"]);
  });

  it("hides the error of an agent in the state and events of an execution, except in dev", async () => {
    const input = { prompt: `hidden ${server.target}` };
    const { events } = await server.post("/workflows/a-wrong-key/stream", {
      input,
      options: { executionId: "hidden" },
    });
    const error = server.target === "dev" ? "Model rejected the credentials" : "Failed to execute workflow";
    expect(events.at(-2)).toMatchObject({ type: "workflow-error", error });
    expect(events.at(-1)).toMatchObject({ type: "workflow-result", error });
    const { body } = await server.get("/workflows/a-wrong-key/executions/hidden/state");
    expect(body.data).toMatchObject({ status: "error", error });
  });

  it("neither repeats a step nor answers with its error if a hook of the agent refuses", async () => {
    refused = 0;
    const answer = await server.post("/workflows/hooked/execute", { input: {} });
    expect([answer.status, answer.body.error]).toEqual([500, "Failed to execute workflow"]);
    expect(refused).toBe(1);
  });

  it("repeats a step if the provider cannot be reached", async () => {
    failed = 0;
    await server.post("/workflows/offline/execute", { input: {} });
    expect(failed).toBe(2);
  });
});

const impatient = { workflows: [silent], server: { limits: { modelFirstByteMs: 50 } } };
describeServer("an agent that times out in a step", { config: impatient, only: ["start"] }, (server) => {
  it("repeats a step whose model times out", async () => {
    const prompt = `silence ${server.target}`;
    const answer = await server.post("/workflows/silent/execute", { input: { prompt } });
    expect([answer.status, answer.body.error]).toEqual([500, "Failed to execute workflow"]);
    const { body } = await server.get("/api/logs?limit=10&level=warn");
    expect(body.data).toMatchObject([{ message: "Step attempt failed" }, { message: "Step failed" }]);
  });
});
