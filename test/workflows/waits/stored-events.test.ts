// Waits that find their event already stored, on the backend that is chosen.
import { defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import * as v from "valibot";
import { chosenBackend } from "../../harness/backends.ts";
import { createGates } from "../../harness/gates.ts";
import { describeServer, type TestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";

const gates = createGates();
const key = ({ executionId }: { executionId: string }): string => executionId;
const schema = v.object({ n: v.number() });
const workflows = [
  defineWorkflow({ id: "paid" })
    .andThen({ id: "gate", execute: ({ executionId }) => gates.pass(executionId) })
    .andWaitFor({ id: "first", event: "paid", key, schema })
    .andWaitFor({ id: "second", event: "paid", key, schema })
    .andThen({ id: "sum", execute: ({ data, getStepData }) => (getStepData("first") as any).n + data.n }),
];

/** Checks an answer. Restate may answer `suspended` first: there, it is the state soon afterwards. */
async function expectAnswer(server: TestServer, { body }: { body: any }, expected: object): Promise<void> {
  if (!chosenBackend.isDistributed) return expect(body.data).toMatchObject(expected);
  const path = `/workflows/paid/executions/${body.data.executionId}/state`;
  await eventually(async () => expect((await server.get(path)).body.data).toMatchObject(expected));
}

/** Executes the workflow. Events are sent while its first step runs. Returns the answer. */
async function execute(server: TestServer, id: string, ...events: unknown[]): Promise<{ body: any }> {
  const answer = server.post("/workflows/paid/execute", { input: {}, options: { executionId: id } });
  await gates.reached(id);
  for (const data of events) expect((await server.post("/events", { name: "paid", key: id, data })).status).toBe(202);
  gates.open(id);
  return answer;
}

describeServer("a wait whose event is stored already", { config: { workflows }, only: ["start"] }, (server) => {
  it("answers an execute with the state after the stored events were taken", async () => {
    const both = await execute(server, "both", { n: 1 }, { n: 2 });
    await expectAnswer(server, both, { status: "completed", result: 3 });
    const one = await execute(server, "one", { n: 1 });
    await expectAnswer(server, one, { status: "suspended", suspension: { stepId: "second" } });
  });

  it("answers a resume with the state after the stored events were taken", async () => {
    const id = "resumed";
    const answer = server.post("/workflows/paid/execute", { input: {}, options: { executionId: id } });
    await gates.reached(id);
    const path = `/workflows/paid/executions/${id}`;
    await server.post(`${path}/suspend`, {});
    await answer;
    for (const n of [1, 2]) await server.post("/events", { name: "paid", key: id, data: { n } });
    gates.open(id);
    await expectAnswer(server, await server.post(`${path}/resume`, {}), { status: "completed", result: 3 });
  });

  it("answers an execute with the suspension when the schema of the wait refuses the stored event", async () => {
    const answer = await execute(server, "refused", { n: "one" });
    await expectAnswer(server, answer, { status: "suspended", suspension: { stepId: "first", event: "paid" } });
  });
});
