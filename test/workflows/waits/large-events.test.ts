import { andThen, andWaitFor, defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { createGates } from "../../harness/gates.ts";
import { describeServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";

const gates = createGates();
const ids = ["a", "b", "c", "d"];
const waits = ids.map((id) => andWaitFor({ id, event: "large", key: ({ executionId }) => executionId }));
const gate = andThen({ id: "gate", execute: ({ executionId }) => gates.pass(executionId) });
const workflow = defineWorkflow({ id: "w" })
  .andAll({ id: "all", steps: [...waits, gate] })
  .andThen({ id: "end", execute: ({ data }) => data.slice(0, ids.length).map((value) => String(value).slice(0, 1)) });
const config = { workflows: [workflow], server: { limits: { bodyBytes: 4_000_000 } } };

describeServer("large events", { config, only: ["start"] }, (server) => {
  // Restate limits the size of a message: they are not taken at once.
  it("takes large events that come together while a step of the execution runs", async () => {
    const options = { executionId: "x" };
    await server.post("/workflows/w/execute", { input: {}, options }, { headers: { prefer: "respond-async" } });
    await gates.reached("x");
    const path = "/workflows/w/executions/x";
    const countOf = async (isOne: (step: any) => boolean): Promise<number> => {
      const { items } = (await server.get(`${path}/steps`)).body.data;
      return items.filter((step: any) => step.type === "andWaitFor" && isOne(step)).length;
    };
    await eventually(async () => expect(await countOf(({ suspension }) => suspension)).toBe(ids.length));
    expect((await server.post(`${path}/suspend`, {})).status).toBe(200);
    for (const id of ids) {
      const event = { name: "large", key: "x", data: id.repeat(3_000_000) };
      expect((await server.post("/events", event)).status).toBe(202);
    }
    const { status } = await server.post(`${path}/resume`, {}, { headers: { prefer: "respond-async" } });
    expect(status).toBe(202);
    await eventually(async () => expect(await countOf((step) => step.status === "success")).toBe(ids.length));
    gates.open("x");
    await eventually(async () =>
      expect((await server.get(`${path}/state`)).body.data).toMatchObject({ status: "completed", result: ids }),
    );
  });
});
