import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { chosenBackend, replicaCount } from "../harness/backends.ts";
import { describeServer, type TestServer } from "../harness/server.ts";
import { bySize } from "../harness/size.ts";
import { gates, timesRan, workflows } from "./fixtures.ts";

// On several replicas each pair takes long.
const pairs = replicaCount > 1 ? 24 : bySize(48, 200);
const resumes = replicaCount > 1 ? 24 : bySize(40, 100);
let counter = 0;
const freshId = (): string => `race-${++counter}`;
const path = (workflow: string, id: string, action: string): string =>
  `/workflows/${workflow}/executions/${id}/${action}`;
const begin = (server: TestServer, workflow: string, input: object, executionId: string) =>
  server.post(`/workflows/${workflow}/execute`, { input, options: { executionId } });
const stateOf = async (server: TestServer, workflow: string, id: string) =>
  (await server.get(path(workflow, id, "state"))).body.data;

describeServer("at the same moment", { config: { workflows }, only: ["start"] }, (server) => {
  it(`accepts one of two simultaneous resumes, ${resumes} times`, async () => {
    for (let i = 0; i < resumes; i++) {
      const id = freshId();
      await begin(server, "ask", { amount: i }, id);
      const resume = (approved: boolean) => server.post(path("ask", id, "resume"), { resumeData: { approved } });
      const answers = await Promise.all([resume(true), resume(false)]);
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 404]);
      const winner = answers[0].status === 200;
      expect(answers.find(({ status }) => status === 200)!.body.data.result.data.approved).toBe(winner);
      expect(timesRan(id, "person")).toBe(2);
    }
  });

  it("accepts one of 100 simultaneous starts with one id, and refuses the others with 409", async () => {
    const id = freshId();
    const answers = await Promise.all(Array.from({ length: 100 }, () => begin(server, "ask", { amount: 1 }, id)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(99);
    expect(timesRan(id, "prepare")).toBe(1);
  });

  // The gate opens and the other request leaves together; `turns` of the event loop move one against the other. On a distributed
  // backend the request has a lead in milliseconds, which grows while it loses and shrinks while it wins.
  let leadMs = 0;
  const openLater = async (id: string): Promise<void> => {
    if (chosenBackend.isDistributed) await sleep(leadMs);
    gates.open(id);
  };
  const atOnce = async (id: string, action: string, i: number) => {
    const waiting = begin(server, "gated", {}, id);
    await gates.reached(id);
    const later = async <T>(turns: number, act: () => T): Promise<Awaited<T>> => {
      for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
      return await act();
    };
    const [asked, executed] = await Promise.all([
      later(i % 12, () => server.post(path("gated", id, action), {})),
      waiting,
      later(4, () => openLater(id)),
    ]);
    leadMs = asked.status === 200 ? leadMs / 2 : leadMs * 1.5 + 4;
    return { asked, executed, state: await stateOf(server, "gated", id) };
  };

  it(`has one legal outcome of a suspend against the completion, ${pairs} times`, async () => {
    const outcomes = { suspended: 0, completed: 0 };
    for (let i = 0; i < pairs; i++) {
      const id = freshId();
      const { asked, executed, state } = await atOnce(id, "suspend", i);
      if (asked.status === 200) {
        outcomes.suspended++;
        expect([executed.body.data.status, state.status]).toEqual(["suspended", "suspended"]);
        const resumed = await server.post(path("gated", id, "resume"), {});
        expect(resumed.body.data).toMatchObject({ status: "completed", result: ["second", "third"] });
      } else {
        outcomes.completed++;
        expect([asked.status, executed.body.data.status, state.status]).toEqual([400, "completed", "completed"]);
      }
      expect([timesRan(id, "first"), timesRan(id, "second"), timesRan(id, "third")]).toEqual([1, 1, 1]);
    }
    console.log("suspend against completion", outcomes);
    expect(Math.min(outcomes.suspended, outcomes.completed)).toBeGreaterThan(0);
  });

  it(`has one legal outcome of a cancel against the completion, ${pairs} times`, async () => {
    const outcomes = { cancelled: 0, completed: 0 };
    for (let i = 0; i < pairs; i++) {
      const { asked, executed, state } = await atOnce(freshId(), "cancel", i);
      if (asked.status === 200) {
        outcomes.cancelled++;
        expect([executed.status, state.status, state.cancellation.reason]).toEqual([
          409,
          "error",
          "Cancelled by request",
        ]);
      } else {
        outcomes.completed++;
        expect([asked.status, executed.body.data.status, state.status]).toEqual([400, "completed", "completed"]);
      }
    }
    console.log("cancel against completion", outcomes);
    expect(Math.min(outcomes.cancelled, outcomes.completed)).toBeGreaterThan(0);
  });
});
