import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import { persist, Replicas } from "./replicas.ts";

let replicas: Replicas | undefined;
afterEach(() => replicas?.close());

const kills = bySize(6, 18);
const prefix = "schedule:each:";

it(
  `a schedule ticks once on three replicas, while ${kills} of them are killed; a pause on one holds on all`,
  { timeout: 12 * patienceMs },
  async () => {
    replicas = await Replicas.start({ checks: true, every: "1s" });
    const { all } = replicas;
    const gone: string[] = [];
    /** The ticks whose steps have begun, each as often as it has. */
    const begun = (): string[] => [...gone, ...all.flatMap(({ steps }) => steps.map(({ id }) => id))];
    await until(() => begun().length > 0, "the first tick");
    const first = Date.parse(begun()[0]!.slice(prefix.length));
    for (let kill = 0; kill < kills; kill++) {
      const before = new Set(begun()).size;
      await until(() => new Set(begun()).size >= before + 2, "two ticks");
      const { steps } = all[kill % 3]!;
      await replicas.replace(kill % 3);
      gone.push(...steps.map(({ id }) => id));
    }
    const [one, other] = all as [(typeof all)[number], (typeof all)[number]];
    expect((await persist(() => one.post("/schedules/each/pause", undefined))).status).toBe(200);
    const pausedAt = Date.now();
    await sleep(3_000);
    const ticks = await listTicks();
    const last = Math.max(...ticks); // on a slow machine, ticks are late: the pause drops those that have not begun
    const due = Array.from({ length: (last - first) / 1_000 + 1 }, (_, index) => first + index * 1_000);
    expect(due.filter((at) => !ticks.includes(at))).toEqual([]);
    expect(ticks.filter((at) => at > pausedAt)).toEqual([]);
    const repeated = begun().length - new Set(begun()).size;
    console.log(`${ticks.length} ticks, ${kills} kills: ${repeated} steps were interrupted and ran again`);
    expect(repeated).toBeLessThanOrEqual(kills * 3);
    const { data } = (await persist(async () => (await other.get("/schedules")).json())) as { data: unknown };
    expect(data).toEqual([expect.objectContaining({ id: "each", paused: true, every: "1s" })]);
    expect((await persist(() => other.post("/schedules/each/resume", undefined))).status).toBe(200);
    await until(async () => (await listTicks()).some((at) => at > pausedAt), "a tick after the pause");

    /** The ticks that have an execution, as any replica lists them. */
    async function listTicks(): Promise<number[]> {
      const found: number[] = [];
      for (let cursor = ""; ;) {
        const page = await persist(async () => {
          const response = await other.get(`/workflows/tick/executions?limit=200${cursor}`);
          return ((await response.json()) as { data?: Page }).data;
        });
        found.push(...page.items.map(({ executionId }) => Date.parse(executionId.slice(prefix.length))));
        if (page.nextCursor === null) return found;
        cursor = `&cursor=${encodeURIComponent(page.nextCursor)}`;
      }
    }
  },
);

interface Page {
  readonly items: readonly { readonly executionId: string }[];
  readonly nextCursor: string | null;
}
