// A step that ends its process each time it runs must not take down one replica after another for ever.
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { eventually, until } from "../harness/waiting.ts";
import { ReplicaGroup, ReplicaProcess, type Answer } from "./replica-process.ts";

const timeout = 4 * patienceMs;

/** A replica that is started again when it has died. */
class RestartedReplica extends ReplicaProcess {
  deaths = 0;
  isServing = false;
  isOver = false;

  override async run(): Promise<void> {
    await super.run().then(
      () => (this.isServing = true),
      () => {}, // it died before
    );
    void this.#restart();
  }

  /** Waits for the end of the process, and starts the next one. */
  async #restart(): Promise<void> {
    await this.host.ended;
    this.isServing = false;
    this.deaths++;
    if (!this.isOver) await this.run();
  }
}

/** Two replicas. One that dies is started again on the same port. */
class Replicas extends ReplicaGroup<RestartedReplica> {
  get deaths(): number {
    return this.all.reduce((sum, { deaths }) => sum + deaths, 0);
  }

  /** Ends one replica after the other by a signal, and waits until each is back. */
  async shutDown(): Promise<void> {
    for (const replica of this.all) {
      const { deaths } = replica;
      replica.send("SIGTERM");
      await until(() => replica.deaths > deaths && replica.isServing, "the replica to be back");
    }
  }

  /** Sends a request to a replica that lives. */
  request(path: string, body?: unknown): Promise<Answer> {
    return eventually(async () => {
      const answer = await this.all
        .find(({ isServing }) => isServing)!
        .request(path, body, { prefer: "respond-async" });
      if (answer.status >= 500) throw new Error(JSON.stringify(answer));
      return answer;
    });
  }
  begin(workflow: string, executionId: string): Promise<unknown> {
    return this.request(`/workflows/${workflow}/execute`, { input: {}, options: { executionId } });
  }
  /** The state of an execution that no longer runs. */
  settled(workflow: string, id: string): Promise<unknown> {
    return eventually(async () => {
      const { body } = await this.request(`/workflows/${workflow}/executions/${id}/state`);
      if (body.data.status === "running") throw new Error(`${id} is running`);
      return body.data;
    });
  }

  timesRan(key: string): number {
    return this.lines("log").filter((one) => one === key).length;
  }

  override close(): void {
    for (const replica of this.all) replica.isOver = true;
    super.close();
  }
}

async function startReplicas(): Promise<Replicas> {
  const module = join(import.meta.dirname, "crashes-app.ts");
  const replicas = new Replicas((place) => new RestartedReplica(module, place), { count: 2 });
  onTestFinished(() => replicas.close());
  return replicas.open();
}

describe("a step that ends the process of its replica", () => {
  it.each(["exits", "aborts"])(
    "suspends a step that %s after the third crash, and completes all others",
    { timeout },
    async (deadly) => {
      const replicas = await startReplicas();
      const beside = ["b1", "b2", "b3", "b4"];
      await Promise.all(beside.map((id) => replicas.begin("slow", id)));
      await until(() => beside.every((id) => replicas.timesRan(`${id}/second`) > 0), "the others to run");
      await replicas.begin(deadly, "p").catch(() => {}); // its replica may die before it answers
      expect(await replicas.settled(deadly, "p")).toMatchObject({
        status: "suspended",
        suspension: { kind: "system", reason: "Interrupted 3 times by a crash", stepId: "deadly" },
      });
      expect([replicas.timesRan("p/before"), replicas.timesRan("p/deadly")]).toEqual([1, 3]);
      for (const id of beside) {
        expect(await replicas.settled("slow", id), id).toMatchObject({ status: "completed", result: "made it" });
        expect(replicas.timesRan(`${id}/first`), `${id}: a recorded step runs once`).toBe(1);
      }
      replicas.touch("cured");
      await replicas.request(`/workflows/${deadly}/executions/p/resume`, {});
      expect(await replicas.settled(deadly, "p")).toMatchObject({ status: "completed", result: "survived" });
      expect([replicas.timesRan("p/before"), replicas.timesRan("p/deadly"), replicas.deaths]).toEqual([1, 4, 3]);
    },
  );

  it("forgets the crashes of an execution once it has made progress", { timeout }, async () => {
    const replicas = await startReplicas();
    await replicas.begin("progressing", "p").catch(() => {});
    expect(await replicas.settled("progressing", "p")).toMatchObject({ status: "completed", result: "done" });
    expect(replicas.lines("log")).toEqual([1, 2, 3, 4, 5].flatMap((n) => [`p/s${n}`, `p/s${n}`]));
  });

  it("does not count the shutdown of a replica as a crash", { timeout }, async () => {
    const replicas = await startReplicas();
    await replicas.begin("hanging", "h");
    for (let times = 1; times <= 3; times++) {
      const before = replicas.timesRan("h/hangs");
      await replicas.shutDown(); // both, so the one that drives
      await until(() => replicas.timesRan("h/hangs") > before, "the step to run again");
    }
    replicas.touch("cured");
    expect(await replicas.settled("hanging", "h")).toMatchObject({ status: "completed", result: "survived" });
  });
});
