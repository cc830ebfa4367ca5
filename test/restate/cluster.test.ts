import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";
import { readStream, seqsOf } from "./event-reader.ts";
import { Replicas, type Replica } from "./replicas.ts";
import { RestateServer } from "./restate-server.ts";

const timeout = 8 * patienceMs;
const loadMs = 10_000;
/** The time between two starts. */
const everyMs = 250;

let nodes: RestateServer[] = [];
let replicas: Replicas | undefined;
afterEach(async () => {
  replicas?.close();
  await Promise.all(nodes.map((node) => node.remove()));
});

/** A start of an execution: when it was sent, and what came of it. */
interface Start {
  readonly id: string;
  readonly sentAt: number;
  readonly ms: number;
  readonly status: number;
}

/** Starts an execution every so often, for 10 s. Half of the calls wait for the end. */
async function runLoad(all: readonly Replica[]): Promise<Start[]> {
  const begunAt = performance.now();
  const starts: Promise<Start>[] = [];
  const begin = async (index: number): Promise<Start> => {
    const id = `load${index}`;
    const sentAt = performance.now();
    const replica = all[index % all.length]!;
    const isWaiting = index % 4 > 1;
    const status = isWaiting
      ? Number((await replica.execute("slow", id)).slice(0, 3))
      : await replica.begin("slow", id);
    return { id, sentAt, status, ms: Math.round(performance.now() - sentAt) };
  };
  for (let index = 0; performance.now() - begunAt < loadMs; index++) {
    starts.push(begin(index));
    await sleep(everyMs);
  }
  return Promise.all(starts);
}

async function loseNode(index: number, lose: (node: RestateServer) => unknown): Promise<void> {
  nodes = await RestateServer.startCluster(3);
  const ingress = nodes.map((node) => node.ingress);
  replicas = await Replicas.start({ count: 2, ingress, admin: nodes[0]!.admin });
  const { all } = replicas;
  let status = "";
  await until(
    async () => (status = await all[0]!.execute("ask", `warm${performance.now()}`)) === "200 suspended",
    () => `a cluster that works, not ${status}`,
  );
  const load = runLoad(all);
  await until(() => all.flatMap(({ steps }) => steps).some(({ id }) => id === "load10"), "load");
  const lostAt = performance.now();
  await lose(nodes[index]!);
  const starts = await load;

  // A call that waits may be told to ask later. Every execution that was acknowledged exists and completes.
  const acknowledged = starts.filter((start) => start.status !== 503);
  const statuses = [...new Set(starts.map((start) => start.status))].toSorted();
  expect(statuses.filter((one) => ![200, 202, 503].includes(one))).toEqual([]);
  for (const { id } of acknowledged) {
    await until(async () => (await all[0]!.state("slow", id))?.status === "completed", `the end of ${id}`);
    const seqs = seqsOf(await readStream(all[1]!, `/workflows/slow/executions/${id}/stream`));
    expect(seqs).toEqual(seqs.map((_, place) => place + 1));
    expect(seqs.length).toBeGreaterThan(0);
  }
  const later = starts.filter(({ sentAt }) => sentAt >= lostAt);
  // A start that got 503 may have been accepted.
  const beginAgain = () => all[0]!.begin("slow", "again");
  await until(async () => [202, 409].includes(await beginAgain()), "a cluster that accepts starts again");
  const refused = later.filter((start) => start.status === 503);
  const figures = {
    starts: starts.length,
    acknowledged: acknowledged.length,
    refusedForMs: Math.round(Math.max(0, ...refused.map(({ sentAt, ms }) => sentAt + ms - lostAt))),
    slowestStartMs: Math.max(0, ...later.filter((start) => start.status === 202).map(({ ms }) => ms)),
    slowestBeforeMs: Math.max(
      ...starts.filter((start) => start.status === 202 && !later.includes(start)).map(({ ms }) => ms),
    ),
  };
  console.log(`node ${index + 1} of 3 is lost:`, JSON.stringify(figures));
}

describe("one of three Restate nodes is lost under load", () => {
  it("loses nothing acknowledged when the Restate node is killed whose ingress is in use", { timeout }, () =>
    loseNode(0, (node) => node.kill()),
  );
  it("loses nothing acknowledged when the Restate node hangs whose ingress is in use", { timeout }, () =>
    loseNode(0, (node) => node.pause()),
  );
  it("loses nothing acknowledged when another Restate node is killed", { timeout }, () =>
    loseNode(1, (node) => node.kill()),
  );
});
