// Replicas of one version are replaced one after the other by those of the next one, which changes two workflows.
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { eventually, until } from "../harness/waiting.ts";
import { ReplicaGroup, ReplicaProcess } from "./replica-process.ts";

const count = 10;
const indexes = Array.from({ length: count }, (_, index) => index);
const changed = "Workflow changed: step start is now where step first was";

/** The ids of the executions whose second step runs, whichever replica runs it. */
const started = new Set<string>();

class Replica extends ReplicaProcess {
  protected override onReport(executionId: string): void {
    started.add(executionId);
  }
}

const request = (replica: Replica, path: string, body?: unknown) =>
  replica.request(path, body, { prefer: "respond-async" });
const pathOf = (workflow: string, id: string): string => `/workflows/${workflow}/executions/${id}`;

async function settled(replica: Replica, workflow: string, id: string): Promise<any> {
  return eventually(async () => {
    const { body } = await request(replica, `${pathOf(workflow, id)}/state`);
    expect(body.data?.status, JSON.stringify(body)).toMatch(/^(suspended|completed|error)$/);
    return body.data;
  });
}

it(
  "a rolling deploy continues suspended and running executions, or gives the documented answer",
  { timeout: 6 * patienceMs },
  async () => {
    const module = join(import.meta.dirname, "versions-app.ts");
    const group = new ReplicaGroup((place) => new Replica(module, place), { count: 2 }, { version: 1 });
    onTestFinished(() => group.close());
    const { all: replicas } = await group.open();
    const all = ["later", "begun"].flatMap((workflow) =>
      indexes.flatMap((n) =>
        [`suspended-${workflow}-${n}`, `running-${workflow}-${n}`].map((id) => ({ workflow, id })),
      ),
    );
    await Promise.all(
      all.map(async ({ workflow, id }, index) => {
        const body = { input: {}, options: { executionId: id } };
        expect((await request(replicas[index % 2]!, `/workflows/${workflow}/execute`, body)).status).toBe(202);
      }),
    );
    const running = all.filter(({ id }) => id.startsWith("running")).map(({ id }) => id);
    await until(() => running.every((id) => started.has(id)), "the steps to run");
    for (const { workflow, id } of all.filter((one) => one.id.startsWith("suspended")))
      expect(await settled(replicas[0]!, workflow, id)).toMatchObject({ status: "suspended" });

    for (const index of [0, 1]) await group.replace(index, { version: 2 }, "SIGTERM");
    group.touch("open");

    const [first, second] = replicas as [Replica, Replica];
    for (const n of indexes) {
      const replica = n % 2 === 0 ? first : second;
      const id = (kind: string): string => `${kind}-${n}`;
      expect(await settled(replica, "later", id("running-later"))).toMatchObject({
        status: "completed",
        result: "first final",
      });
      expect(await settled(replica, "begun", id("running-begun"))).toMatchObject({
        status: "suspended",
        suspension: { kind: "system", reason: changed, stepId: "middle" },
      });
      for (const kind of ["running-begun", "suspended-begun"]) {
        const refused = await request(replica, `${pathOf("begun", id(kind))}/resume`, { resumeData: 1 });
        expect([refused.status, refused.body.error], id(kind)).toEqual([409, changed]);
      }
      const path = pathOf("later", id("suspended-later"));
      expect((await request(replica, `${path}/resume`, { resumeData: 1 })).status).toBe(202);
      expect(await settled(replica, "later", id("suspended-later"))).toMatchObject({
        status: "completed",
        result: "first final",
      });
    }
  },
);
