import * as v from "valibot";
import { andSleep, andThen, andWhen, defineWorkflow, type StepContext } from "agentserve";
import { expect, it } from "vitest";
import { describeInProcess } from "../../harness/server.ts";

const count = 250;
/** Called while the data of a resume is checked. */
let whileChecked: (() => Promise<unknown>) | undefined;
const answer = v.pipeAsync(
  v.object({ ok: v.boolean() }),
  v.checkAsync(async () => {
    const call = whileChecked;
    whileChecked = undefined;
    await call?.();
    return true;
  }),
);
type Ask = StepContext<number, unknown, { ok: boolean } | undefined, unknown>;
const ask = andThen({
  id: "ask",
  resumeSchema: answer,
  execute: ({ data, suspend, resumeData }: Ask) => (resumeData ? { data, ...resumeData } : suspend(`Item ${data}?`)),
});
const approvals = defineWorkflow({ id: "approvals", input: v.object({ count: v.number() }) }).andForEach({
  id: "each",
  items: ({ data }) => Array.from({ length: data.count }, (_, index) => index),
  concurrency: Infinity,
  step: ask as never,
});
/** The last item but one sleeps, and so does the last, which a resume may skip. The others ask. */
const naps = defineWorkflow({ id: "naps" }).andForEach({
  id: "each",
  items: () => Array.from({ length: count }, (_, index) => index),
  concurrency: Infinity,
  steps: [
    andWhen({
      id: "early",
      condition: ({ data }: Pick<StepContext<number>, "data">) => data < count - 2,
      step: ask as never,
    }) as never,
    andWhen({
      id: "late",
      condition: ({ data }: Pick<StepContext<number>, "data">) => data === count - 2,
      step: andSleep({ id: "nap", duration: "2d" }),
    }) as never,
    andWhen({
      id: "last",
      condition: ({ data }: Pick<StepContext<number>, "data">) => data === count - 1,
      step: andSleep({ id: "skip", duration: "2d", skippable: true }),
    }) as never,
  ],
});

describeInProcess("a loop with more waits than a suspension lists", { workflows: [approvals, naps] }, (server) => {
  let executions = 0;
  const begin = async (workflow: string, items = count) => {
    const json = { input: { count: items }, options: { executionId: `m${++executions}` } };
    const { executionId } = json.options;
    const { body } = await server.post(`/workflows/${workflow}/execute`, json);
    const path = `/workflows/${workflow}/executions/${executionId}`;
    const resume = (stepId: string, resumeData?: unknown) =>
      server.post(`${path}/resume`, { resumeData, options: { stepId } });
    return { path, resume, data: body.data };
  };

  it("resumes any of many waiting items by the path that the steps show", async () => {
    const { path, resume, data } = await begin("approvals");
    expect([data.suspension.pending.length, data.suspension.pendingCount]).toEqual([100, count]);
    expect(data.suspension.pending.at(-1).stepId).toBe("each/99/ask");

    const last = `each/${count - 1}/ask`;
    const { body: shown } = await server.get(`${path}/steps?path=${last}`);
    expect(shown.data.items).toMatchObject([{ path: last, status: "suspended", suspension: { kind: "person" } }]);

    const wrong = await resume(last, { ok: "yes" });
    expect([wrong.status, wrong.body.error]).toEqual([400, expect.stringContaining("Invalid resume data: ok")]);
    const resumed = await resume(last, { ok: true });
    expect(resumed.status).toBe(200);
    expect(resumed.body.data.suspension).toMatchObject({ stepId: "each/0/ask", pendingCount: count - 1 });
    const { body: after } = await server.get(`${path}/steps?path=${last}`);
    expect(after.data.items).toMatchObject([{ status: "success" }]);

    for (const stepId of [last, `each/${count}/ask`, "each/150", "each/ask"]) {
      const refused = await resume(stepId, { ok: true });
      expect([refused.status, refused.body.error]).toEqual([400, `This execution cannot resume from step ${stepId}`]);
    }
    const { body } = await server.get(`${path}/state`);
    expect(body.data).toMatchObject({ status: "suspended", suspension: { pendingCount: count - 1 } });
  });

  it("resumes the listed items once no more than they wait", async () => {
    const { resume } = await begin("approvals", 102);
    await resume("each/101/ask", { ok: true });
    const { body } = await resume("each/100/ask", { ok: true });
    expect(body.data.suspension.pending).toHaveLength(100);
    expect(body.data.suspension.pendingCount).toBeUndefined();
    expect((await resume("each/99/ask", { ok: false })).status).toBe(200);
  });

  it("accepts one of three resumes of the same waiting item", async () => {
    const { resume } = await begin("approvals");
    const answers = await Promise.all([1, 2, 3].map(() => resume("each/200/ask", { ok: true })));
    const statuses = answers.map(({ status }) => status).toSorted();
    expect(statuses[0]).toBe(200);
    // Too late: the execution runs, is not suspended at that moment, or no longer waits at that step.
    for (const status of statuses.slice(1)) expect([400, 404]).toContain(status);
  });

  it("resumes one of many waiting items while others are resumed", async () => {
    const { resume } = await begin("approvals");
    whileChecked = () => resume("each/240/ask", { ok: true });
    const { status, body } = await resume("each/200/ask", { ok: true });
    expect(status).toBe(200);
    expect(body.data.suspension.pendingCount).toBe(count - 2);
    whileChecked = () => resume("each/201/ask", { ok: true });
    const late = await resume("each/201/ask", { ok: false });
    expect([late.status, late.body.error]).toEqual([404, expect.stringContaining("is not suspended")]);
  });

  it("refuses to resume a sleeping item, and skips one that is skippable", async () => {
    const { resume, data } = await begin("naps");
    expect(data.suspension.pendingCount).toBe(count);
    const asleep = await resume(`each/${count - 2}/nap`);
    expect([asleep.status, asleep.body.error]).toEqual([409, expect.stringContaining(" sleeps until ")]);
    const skipped = await resume(`each/${count - 1}/skip`);
    expect(skipped.body.data.suspension.pendingCount).toBe(count - 1);
  });
});
