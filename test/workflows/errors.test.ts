import { once } from "node:events";
import { Agent, request, type IncomingMessage } from "node:http";
import { andThen, createToken, defineAgent, defineWorkflow, jwtAuth, ServeError } from "agentserve";
import { scriptedModel } from "agentserve/models";
import { describe, expect, it } from "vitest";
import * as v from "valibot";
import { createGates } from "../harness/gates.ts";
import { eventually } from "../harness/waiting.ts";
import { describeServer, startServer, startTestServer, type TestServer } from "../harness/server.ts";

const gates = createGates();
/** The error that the next step throws, by name. */
const errors: Record<string, () => unknown> = {
  "402": () => new ServeError(402, "Not enough money", { headers: [["x-balance", "5"]] }),
  "401": () => new ServeError(401, "Log in at the bank", { headers: [["www-authenticate", "Bank"]] }),
  "404": () => new ServeError(404, "No such order"),
  "409": () => new ServeError(409, "The order is locked"),
  "413": () => new ServeError(413, "The order is too large"),
  "426": () => new ServeError(426, "Use the new shop"),
  "499": () => new ServeError(499, "The bank hung up"),
  "429": () => new ServeError(429, "Slow down", { headers: [["retry-after", "7"]] }),
  "500": () => new ServeError(500, "The bank is on fire"),
  "503": () => new ServeError(503, "The bank is closed"),
  plain: () => new Error("password of the database"),
  forged: () => Object.assign(new Error("forged"), { status: 403, shown: true }),
};
const fail = ({ input, resumeData }: { input: unknown; resumeData?: unknown }): never => {
  throw errors[((resumeData ?? input) as { error: string }).error]!();
};

const inner = defineWorkflow({ id: "inner" }).andThen({ id: "fails", execute: fail });
const workflows = [
  defineWorkflow({ id: "fails" }).andThen({ id: "fails", execute: fail }),
  defineWorkflow({ id: "condition" }).andWhen({
    id: "when",
    condition: fail,
    step: andThen({ id: "then", execute: () => 1 }),
  }),
  defineWorkflow({ id: "nested" }).andWorkflow({ id: "sub", workflow: inner as never }),
  defineWorkflow({ id: "all" }).andAll({
    id: "both",
    steps: [andThen({ id: "fine", execute: () => 1 }), andThen({ id: "fails", execute: fail })],
  }),
  defineWorkflow({ id: "asks", resumeSchema: v.object({ error: v.string() }) }).andThen({
    id: "ask",
    execute: ({ resumeData, input, suspend }) => (resumeData ? fail({ input, resumeData }) : suspend("Which?")),
  }),
  defineWorkflow({ id: "agent" }).andAgent({
    id: "ask",
    agent: defineAgent({ id: "helper", instructions: "Help", model: scriptedModel([]), maxRetries: 0 }),
    prompt: "?",
  }),
  defineWorkflow({ id: "prompt" }).andAgent({
    id: "ask",
    agent: defineAgent({ id: "prompted", instructions: "Help", model: scriptedModel([]), maxRetries: 0 }),
    prompt: fail,
  }),
  defineWorkflow({ id: "tapped" })
    .andTap({ id: "fails", execute: fail })
    .andThen({ id: "then", execute: () => "tapped" }),
  defineWorkflow({ id: "half" }).andAll({
    id: "all",
    steps: [
      andThen({ id: "legal", execute: ({ suspend }) => suspend("Legal?") }),
      andThen({ id: "beside", execute: ({ executionId }) => gates.pass(executionId) }),
    ],
  }),
  defineWorkflow({ id: "gated" }).andThen({ id: "waits", execute: ({ executionId }) => gates.pass(executionId) }),
];
let count = 0;
const freshId = (): string => `error-${++count}`;
const begin = (server: TestServer, workflow: string, error: string, id: string) =>
  server.post(`/workflows/${workflow}/execute`, { input: { error }, options: { executionId: id } });
const pathOf = (workflow: string, id: string, verb: string): string =>
  `/workflows/${workflow}/executions/${id}/${verb}`;

/** The statuses and messages of the answers, by hand from the rule. */
const answers: [error: string, status: number, message: string][] = [
  ["402", 402, "Not enough money"],
  ["401", 401, "Log in at the bank"],
  ["404", 404, "No such order"],
  ["409", 409, "The order is locked"],
  ["413", 413, "The order is too large"],
  ["426", 426, "Use the new shop"],
  ["499", 499, "The bank hung up"],
  ["429", 429, "Slow down"],
  ["500", 500, "Failed to execute workflow"],
  ["503", 500, "Failed to execute workflow"],
  ["plain", 500, "Failed to execute workflow"],
  ["forged", 500, "Failed to execute workflow"],
];

describeServer("a workflow whose step throws", { config: { workflows }, only: ["dev", "start"] }, (server) => {
  /** The whole body of an error about a failed execution. */
  const bodyOf = (error: string, message: string, executionId: string) => {
    const detail = server.target === "dev" && { detail: (errors[error]!() as Error).message };
    return { success: false, error: message, executionId, ...detail };
  };

  it.for(answers)(
    "answers execute and resume of a step that throws %s with %i %s",
    async ([error, status, message]) => {
      const id = freshId();
      const answer = await begin(server, "fails", error, id);
      expect([answer.status, answer.body]).toEqual([status, bodyOf(error, message, id)]);
      expect(answer.headers.get("x-execution-id")).toBe(id);
      for (const name of ["www-authenticate", "x-balance", "retry-after", "upgrade"])
        expect([name, answer.headers.get(name)], "the headers of an error in a step are not sent").toEqual([
          name,
          null,
        ]);
      const { data } = (await server.get(pathOf("fails", id, "state"))).body;
      expect([data.status, data.endAt === null]).toEqual(["error", false]);

      const asking = freshId();
      await begin(server, "asks", "", asking);
      const resumed = await server.post(pathOf("asks", asking, "resume"), { resumeData: { error } });
      expect([resumed.status, resumed.body]).toEqual([status, bodyOf(error, message, asking)]);
      expect(resumed.headers.get("x-execution-id")).toBe(asking);
    },
  );

  it.for(["condition", "nested", "all", "prompt"])(
    "answers with the 4xx that is thrown in the workflow %s",
    async (workflow) => {
      const id = freshId();
      const answer = await begin(server, workflow, "402", id);
      expect([answer.status, answer.body]).toEqual([402, bodyOf("402", "Not enough money", id)]);
    },
  );

  it("completes an execution whose andTap throws", async () => {
    const answer = await begin(server, "tapped", "402", freshId());
    expect([answer.status, answer.body.data.result]).toEqual([200, "tapped"]);
  });

  it("answers 500 when an agent of the workflow fails, whatever the error", async () => {
    const id = freshId();
    const answer = await begin(server, "agent", "", id);
    const detail = server.target === "dev" && { detail: "Model call failed" };
    const body = { success: false, error: "Failed to execute workflow", executionId: id, ...detail };
    expect([answer.status, answer.body]).toEqual([500, body]);
  });

  it("answers the next request on a kept-alive connection after each error status", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ask = async (error: string): Promise<[status: number | undefined, isReused: boolean]> => {
      const headers = { "content-type": "application/json" };
      const asked = request(`${server.url}/workflows/fails/execute`, { method: "POST", agent, headers });
      asked.end(JSON.stringify({ input: { error } }));
      const [response] = (await once(asked, "response")) as [IncomingMessage];
      await once(response.resume(), "end");
      return [response.statusCode, asked.reusedSocket];
    };
    const statuses = [await ask("402")];
    for (const error of ["413", "426", "499", "401"]) statuses.push(await ask(error));
    expect(statuses).toEqual([[402, false], ...[413, 426, 499, 401].map((status) => [status, true])]);
    agent.destroy();
  });

  it.for(["402", "500", "plain"])(
    "shows the message of error %s in events only if it is a ServeError, and no status",
    async (error) => {
      const id = freshId();
      const options = { executionId: id };
      const { status, events } = await server.post("/workflows/fails/stream", { input: { error }, options });
      const isShown = error !== "plain" || server.target === "dev";
      const message = isShown ? (errors[error]!() as Error).message : "Failed to execute workflow";
      expect(status).toBe(200);
      const [failed, result] = events.slice(-2);
      expect(failed).toEqual({
        type: "workflow-error",
        executionId: id,
        timestamp: expect.any(String),
        seq: 3,
        error: message,
      });
      expect(result).toMatchObject({ type: "workflow-result", status: "error", error: message });
      expect(result).not.toHaveProperty("detail");
      const state = (await server.get(pathOf("fails", id, "state"))).body.data;
      expect(state.error).toBe(message);
      const attached = await server.get(pathOf("fails", id, "stream"));
      expect(attached.events.slice(0, -1)).toEqual(events.slice(0, -1));
    },
  );

  it("names the steps that wait when a running execution is resumed", async () => {
    const id = freshId();
    const begun = begin(server, "half", "", id);
    await gates.reached(id);
    await eventually(async () => {
      const answer = await server.post(pathOf("half", id, "resume"), { options: { stepId: "legal" } });
      const error = `Execution ${id} is running: legal can be resumed when no other step is running`;
      expect([answer.status, answer.body]).toEqual([404, { success: false, error, executionId: id }]);
    });
    gates.open(id);
    expect((await begun).body.data.status).toBe("suspended");
  });

  it("names the execution in every error about one that has begun", async () => {
    const [ended, waiting, running] = [freshId(), freshId(), freshId()];
    await begin(server, "fails", "402", ended);
    await begin(server, "asks", "", waiting);
    const cancelled = begin(server, "gated", "", running);
    await gates.reached(running);
    const refusals: [status: number, error: string, path: string, id: string, body?: object][] = [
      [404, `Execution ${ended} is not suspended`, pathOf("fails", ended, "resume"), ended],
      [
        404,
        `Execution ${running} is running: no step waits for an answer`,
        pathOf("gated", running, "resume"),
        running,
      ],
      [400, `Execution ${ended} is not running`, pathOf("fails", ended, "suspend"), ended],
      [400, `Execution ${waiting} is not running`, pathOf("asks", waiting, "suspend"), waiting],
      [400, `Execution ${ended} has already ended`, pathOf("fails", ended, "cancel"), ended],
      [400, "Invalid resume data: resumeData is required", pathOf("asks", waiting, "resume"), waiting],
      [
        400,
        "This execution cannot resume from step nope",
        pathOf("asks", waiting, "resume"),
        waiting,
        { options: { stepId: "nope" } },
      ],
    ];
    for (const [status, error, path, executionId, body] of refusals) {
      const answer = await server.post(path, body ?? {});
      expect([answer.status, answer.body]).toEqual([status, { success: false, error, executionId }]);
      expect(answer.headers.get("x-execution-id")).toBe(executionId);
    }
    await server.post(pathOf("gated", running, "cancel"), {});
    const answer = await cancelled;
    const error = `Execution ${running} was cancelled`;
    expect([answer.status, answer.body]).toEqual([409, { success: false, error, executionId: running }]);
  });

  it("names no execution in the answer to a refused request", async () => {
    const known = freshId();
    await begin(server, "asks", "", known);
    const other = pathOf("fails", known, "resume");
    const refused = [
      await server.post("/workflows/asks/execute", { input: {}, options: { executionId: known } }),
      await server.post("/workflows/asks/stream", { input: {}, options: { executionId: known } }),
      await server.post("/workflows/asks/execute", {}),
      await server.post(pathOf("asks", "nope", "resume"), {}),
      await server.post(pathOf("asks", "nope", "suspend"), {}),
      await server.post(pathOf("asks", "nope", "cancel"), {}),
      await server.post(other, {}),
      await server.post(pathOf("asks", known, "resume"), { options: 1 }),
    ];
    expect(refused.map(({ status }) => status)).toEqual([409, 409, 400, 404, 404, 404, 404, 400]);
    for (const { body } of refused) expect(body).toEqual({ success: false, error: expect.any(String) });
  });
});

describe("an execution of another user", () => {
  it("does not name the execution of another user in the answer to a resume or cancel", async () => {
    const secret = "only for tests, and at least 32 bytes";
    const auth = jwtAuth({ secret, ownership: true });
    const server = await startTestServer("in process", { config: { workflows, auth } });
    const as = async (sub: string) => ({ headers: { authorization: `Bearer ${await createToken({ sub }, secret)}` } });
    const ada = await as("ada");
    await server.post("/workflows/asks/execute", { input: {}, options: { executionId: "hers" } }, ada);
    for (const verb of ["resume", "suspend", "cancel"]) {
      const answer = await server.post(pathOf("asks", "hers", verb), {}, await as("bob"));
      expect([answer.status, answer.body]).toEqual([404, { success: false, error: "Execution hers not found" }]);
    }
    const own = await server.post(pathOf("asks", "hers", "suspend"), {}, ada);
    expect([own.status, own.body.executionId]).toEqual([400, "hers"]);
  });
});

describe("a server that shuts down", () => {
  it("names the execution that a call waits for when the server shuts down", async () => {
    const config = { workflows, server: { limits: { drainMs: 1 } } };
    const server = await startServer("in process", { config });
    const id = freshId();
    const waiting = begin(server, "gated", "", id);
    await gates.reached(id);
    await server.close();
    const answer = await waiting;
    expect([answer.status, answer.body]).toEqual([503, { success: false, error: expect.any(String), executionId: id }]);
    expect(answer.headers.get("retry-after")).toMatch(/^\d+$/);
  });
});

it("refuses a ServeError with a status that is not a whole number", () => {
  expect(() => new ServeError(404.5, "no")).toThrow("ServeError: 404.5 is not an error status (400–599)");
});
