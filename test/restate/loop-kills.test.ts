import { afterEach, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { bySize } from "../harness/size.ts";
import { until, untilNone } from "../harness/waiting.ts";
import { readStream } from "./event-reader.ts";
import { persist, Replicas, type StartedStep } from "./replicas.ts";

const count = 1_000;
const kills = bySize(2, 8);

let replicas: Replicas | undefined;
afterEach(() => replicas?.close());

it.each([1, 10])(
  `a loop of ${count} items, %i at a time, continues when the replica that drives it is killed`,
  { timeout: 12 * patienceMs },
  async (concurrency) => {
    replicas = await Replicas.start({ checks: true });
    const gone: StartedStep[] = [];
    const started = (): StartedStep[] => [...gone, ...replicas!.all.flatMap(({ steps }) => steps)];
    const workflow = `each${concurrency}`;
    const startedAt = performance.now();
    await persist(async () => ((await replicas!.all[0]!.begin(workflow, "l")) === 202 ? true : undefined));
    for (let kill = 0; kill < kills; kill++) {
      const many = Math.round(((kill + 0.5) / kills) * count);
      await untilNone(() => Math.max(0, many - new Set(started().map(({ step }) => step)).size), "items");
      const last = ({ steps }: { steps: readonly StartedStep[] }): number => steps.at(-1)?.at ?? 0;
      const [driver] = [...replicas.all].toSorted((a, b) => last(b) - last(a));
      gone.push(...(await replicas.replace(replicas.all.indexOf(driver!))).steps);
    }
    const state = () => persist(() => replicas!.all[0]!.state(workflow, "l"));
    await until(async () => (await state()).status === "completed", "the end of the loop");
    const ms = Math.round(performance.now() - startedAt);
    const items = Array.from({ length: count }, (_, index) => index);
    expect(await state()).toMatchObject({ result: items.map((item) => 2 * item) });

    const events = await persist(() => readStream(replicas!.all[1]!, `/workflows/${workflow}/executions/l/stream`));
    for (const type of ["step-start", "step-complete"]) {
      const recorded = events.filter((event) => event.type === type && event.from?.startsWith("each/"));
      const order = recorded.map(({ from }) => Number(from!.split("/")[1]));
      expect(order.toSorted((a, b) => a - b)).toEqual(items);
    }
    expect(gone.length, "items on replicas that were killed").toBeGreaterThan(0);
    expect(started().length, "items on the others").toBeGreaterThan(gone.length);
    const steps = started().map(({ step }) => Number(step));
    expect(new Set(steps).size).toBe(count);
    const repeated = steps.length - count;
    expect(repeated).toBeLessThanOrEqual(kills * concurrency); // those in flight
    console.log(`${count} items, ${concurrency} at a time, ${kills} kills: ${ms} ms, ${repeated} items ran again`);
  },
);
