import { defineWorkflow } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { createGates } from "../harness/gates.ts";
import { describeInProcess } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

const gates = createGates();
const asks = defineWorkflow({ id: "asks", resumeSchema: v.object({ approved: v.boolean() }) })
  .andThen({ id: "ask", execute: ({ suspend, resumeData }) => resumeData ?? suspend("Approve?") })
  .andThen({
    id: "pay",
    async execute({ executionId, data }) {
      await gates.pass(executionId);
      return data;
    },
  });

let counter = 0;

describeInProcess("resume with Prefer: respond-async", { workflows: [asks] }, (server) => {
  const headers = { prefer: "respond-async" };
  async function suspended(): Promise<{ id: string; path: string }> {
    const id = `async-${++counter}`;
    await server.post("/workflows/asks/execute", { input: {}, options: { executionId: id } });
    return { id, path: `/workflows/asks/executions/${id}` };
  }

  it("answers a resume with respond-async with 202 while the execution runs", async () => {
    const { id, path } = await suspended();
    const {
      status,
      body,
      headers: answered,
    } = await server.post(`${path}/resume`, { resumeData: { approved: true } }, { headers });
    expect(status).toBe(202);
    expect(body).toEqual({ success: true, data: { executionId: id, status: "running" } });
    expect(answered.get("x-execution-id")).toBe(id);
    expect((await server.get(`${path}/state`)).body.data.status).toBe("running"); // its gate is closed
    gates.open(id);
    await eventually(async () =>
      expect((await server.get(`${path}/state`)).body.data).toMatchObject({
        status: "completed",
        result: { approved: true },
      }),
    );
  });

  it("refuses wrong data of a resume with respond-async, and changes nothing", async () => {
    const { path } = await suspended();
    const refused = await server.post(`${path}/resume`, { resumeData: { approved: "yes" } }, { headers });
    expect(refused.status).toBe(400);
    expect(refused.body.error).toMatch(/^Invalid resume data: /);
    expect((await server.get(`${path}/state`)).body.data.status).toBe("suspended");
  });

  it("answers simultaneous resumes with respond-async with one 202 and otherwise 404", async () => {
    const { id, path } = await suspended();
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => server.post(`${path}/resume`, { resumeData: { approved: true } }, { headers })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([202, 404, 404, 404, 404]);
    gates.open(id);
  });
});
