// The health checks of a starved machine fail now and then, and the proxy cuts the connections of replicas that are well.
import { spawn, type ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import { Replicas, type Replica } from "./replicas.ts";

const flapMs = bySize(10_000, 120_000);
const checkMs = 500;
/** The time between two starts. */
const everyMs = 250;
const minRounds = 4;
const cut = "Got abort error from connection";
const workflowOf = (id: string): string => id.replace(/\d+/, "");
const lastOf = (id: string): string => (workflowOf(id) === "gated" ? "s3" : "s5");
const gated = Array.from({ length: 40 }, (_, index) => `gated${index}`);

let replicas: Replicas | undefined;
let busy: ChildProcess[] = [];
afterEach(() => {
  for (const child of busy) child.kill("SIGKILL");
  replicas?.close();
});

/** Starts an execution every so often, until the time is over. Resolves to those that were acknowledged. */
async function load(all: readonly Replica[], isOver: () => boolean): Promise<string[]> {
  const acknowledged: string[] = [];
  const starts: Promise<unknown>[] = [];
  for (let index = 0; !isOver(); index++) {
    const id = `slow${index}`;
    starts.push(all[index % all.length]!.begin("slow", id).then((status) => status === 202 && acknowledged.push(id)));
    await sleep(everyMs);
  }
  await Promise.all(starts);
  return acknowledged;
}

/** Returns true if the last step of an execution has started. */
const hasEnded = (all: readonly Replica[], id: string): boolean =>
  all.some(({ steps }) => steps.some((one) => one.id === id && one.step === lastOf(id)));

it(
  "after health checks that flapped under load everything completes, and no drive was rescued without a cause",
  { timeout: flapMs + 8 * patienceMs },
  async () => {
    replicas = await Replicas.start();
    const { all } = replicas;
    for (const [index, id] of gated.entries()) expect(await all[index % all.length]!.begin("gated", id)).toBe(202);
    const isWaiting = (id: string): boolean =>
      all.some(({ steps }) => steps.some((one) => one.id === id && one.step === "s2"));
    await until(() => gated.every(isWaiting), "the second step of every execution");

    busy = Array.from({ length: 4 }, () => spawn(process.execPath, ["-e", "for (;;);"]));
    const begunAt = performance.now();
    const isOver = (): boolean => performance.now() - begunAt > flapMs;
    const loading = load(all, isOver);
    for (let round = 0; !isOver() || round < minRounds; round++) {
      for (const [index, replica] of all.entries()) replicas.checked(replica, (round + index) % 2 === 0);
      await sleep(checkMs);
    }
    for (const replica of all) replicas.checked(replica, true);
    for (const child of busy) child.kill("SIGKILL");
    const free = await loading;
    replicas.openGate();

    const ids = [...gated, ...free];
    const endedAt = performance.now();
    for (const id of ids) await until(() => hasEnded(all, id), `the last step of ${id}`);
    for (const id of ids)
      await until(async () => (await all[0]!.state(workflowOf(id), id))?.status === "completed", `the end of ${id}`);
    const retries = await replicas.sumOf("agentserve_drive_retries_total");
    console.log(
      "health checks flapped:",
      JSON.stringify({ completed: ids.length, retries, ms: Math.round(performance.now() - endedAt) }),
    );
    expect(retries).toBeGreaterThan(gated.length);
    // Their connections were cut: that is no reason to replace a drive.
    expect(await replicas.sumOf("agentserve_drive_rescues_total")).toBe(0);
    const quietTimes = Math.ceil((performance.now() - begunAt) / 10_000) + 1;
    for (const { host } of all) expect(host.stderr.split(cut).length - 1).toBeLessThanOrEqual(quietTimes);
  },
);
