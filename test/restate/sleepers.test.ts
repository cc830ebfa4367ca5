import { afterEach, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import type { StoredRow } from "../../src/backends/restate/drive/rows.ts";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import { readStream } from "./event-reader.ts";
import { forAll, persist, Replicas, type StartedStep } from "./replicas.ts";
import { query } from "./replica-process.ts";

const timeout = 12 * patienceMs;

let replicas: Replicas | undefined;
afterEach(() => replicas?.close());

const toIds = (count: number): string[] => Array.from({ length: count }, (_, index) => `s${index}`);

/** The replica for the call with a number, as it is now. */
const pick = (index: number) => replicas!.all[index % 3]!;
/** Starts a sleep. A call whose replica is killed may have been accepted. */
const sleepFor = (id: string, index: number, ms: number) =>
  persist(async () => {
    const status = await pick(index).begin("nap", id, { ms });
    return status === 202 || status === 409 ? status : undefined;
  });
const statusOf = async (id: string, index: number): Promise<string> =>
  (await persist(() => pick(index).state("nap", id))).status;

/** The scheduled calls of `wake`, by execution. */
const scheduled = () =>
  query<{ id: string; wakes: string }>(
    `select target_service_key as id, id as wakes from sys_invocation where target_service_name = '${replicas!.name}'
      and target_handler_name = 'wake' and status = 'scheduled' order by target_service_key, id`,
  );

it(
  "a sleeping execution keeps one scheduled call while replicas are killed, a cancelled one none",
  {
    timeout,
  },
  async () => {
    replicas = await Replicas.start({ checks: true });
    const ids = toIds(bySize(100, 1_000));
    await forAll(ids, (id, index) => sleepFor(id, index, 3_600_000));
    const atOnce = (await scheduled()).length; // a start is answered before the execution sleeps
    await forAll(ids, (id, index) => until(async () => (await statusOf(id, index)) === "suspended", `${id} to sleep`));
    const calls = await scheduled();
    expect(calls.map(({ id }) => id)).toEqual(ids.toSorted());
    console.log(
      `${ids.length} sleepers: ${atOnce} scheduled calls after the last start, ${calls.length} when all sleep`,
    );
    for (const index of [0, 1, 2]) await replicas.replace(index);
    expect(await scheduled()).toEqual(calls);
    const cancelled = ids.filter((_, index) => index % 2 === 0);
    await forAll(cancelled, (id, index) =>
      persist(async () => {
        const { status } = await pick(index).post(`/workflows/nap/executions/${id}/cancel`, {});
        return status === 200 || status === 404 ? status : undefined; // 404: the call before it has cancelled it
      }),
    );
    const left = calls.filter(({ id }) => !cancelled.includes(id));
    await until(
      async () => (await scheduled()).length <= left.length,
      "the calls of cancelled executions to be removed",
    );
    expect(await scheduled()).toEqual(left);
  },
);

const count = 1_000;
const kills = bySize(4, 12);
const story = [
  "workflow-start",
  "step-start sleep",
  "workflow-suspended",
  "step-complete sleep",
  "step-start end",
  "step-complete end",
  "workflow-complete",
];
const toLine = ({ type, from }: { type: string; from?: string }): string =>
  from === undefined ? type : `${type} ${from}`;

/** The journals in Restate, by execution. No replica is asked. */
async function readRows(): Promise<Map<string, StoredRow[]>> {
  const found = await query<{ id: string; row: string }>(
    `select service_key as id, value_utf8 as row from state where service_name = '${replicas!.name}.drive'
      and key like 'r%' order by service_key, key`,
  );
  return Map.groupBy(
    found.map(({ id, row }) => ({ id, ...(JSON.parse(row) as StoredRow) })),
    ({ id }) => id,
  );
}

it(`${count} sleepers wake once while replicas are killed and started`, { timeout }, async () => {
  replicas = await Replicas.start({ checks: true });
  const ids = toIds(count);
  const startedAt = performance.now();
  const seconds = (): number => Math.round((performance.now() - startedAt) / 1_000);
  const gone: StartedStep[] = [];
  const woken = (): StartedStep[] =>
    [...gone, ...replicas!.all.flatMap((replica) => replica.steps)].filter(({ step }) => step === "end");
  // A replica is killed in the middle of the wakes, and again each time when so many more have woken.
  const killing = (async () => {
    for (let kill = 0; kill < kills; kill++) {
      const many = Math.round(((kill + 0.5) / kills) * count);
      await until(() => woken().length >= many, `${many} sleepers to wake`);
      const { steps } = pick(kill);
      await replicas!.replace(kill % 3);
      gone.push(...steps);
    }
  })();
  const starting = forAll(ids, (id, index) => sleepFor(id, index, 3_000 + ((index * 7_919) % 10_000)));
  await Promise.all([starting.then(() => console.log(`${count} sleepers were started in ${seconds()} s`)), killing]);
  console.log(`the last of ${kills} replicas was killed and started after ${seconds()} s`);
  let asleep = ids;
  await until(
    async () => {
      const rows = await readRows();
      asleep = ids.filter((id) => rows.get(id)?.at(-1)?.status !== "completed");
      return asleep.length === 0;
    },
    () => `${asleep.length} to complete: ${asleep.slice(0, 10).join()}`,
  );
  console.log(`all had completed after ${seconds()} s`);
  for (const [id, rows] of await readRows()) {
    const told = rows.flatMap(({ events }) => events.map(toLine));
    expect([id, told]).toEqual([id, story]);
    expect(rows.filter(({ row }) => row?.kind === "wake")).toHaveLength(1);
  }
  // As callers see it.
  await forAll(ids.slice(0, 50), async (id, index) => {
    const events = await persist(() => readStream(pick(index), `/workflows/nap/executions/${id}/stream`));
    expect(events.map(toLine)).toEqual([...story, "workflow-result"]);
  });
  expect(await scheduled()).toEqual([]);
  const ended = woken();
  expect(new Set(ended.map(({ id }) => id)).size).toBe(count);
  console.log(`${ended.length - count} of ${count} steps after a sleep ran again; checked after ${seconds()} s`);
});
