import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { bySize } from "../harness/size.ts";
import { startHost } from "../harness/start-host.ts";

it("a server with 1,000 schedules that are not due takes under 1 % of a processor", { timeout: 300_000 }, async () => {
  const measure = async (count: number): Promise<number> => {
    const host = await startHost("test/schedules/idle-app.ts", { count });
    const { data } = (await (await fetch(`${host.url}/schedules`)).json()) as { data: unknown[] };
    expect(data).toHaveLength(count);
    await sleep(2_000); // until all are stored, and garbage is collected
    const share = await host.order("share", bySize(5_000, 30_000));
    await host.end();
    return share;
  };
  const [idle, share] = [await measure(0), await measure(1_000)];
  console.log(`1,000 schedules: ${(100 * share).toFixed(2)} % (none: ${(100 * idle).toFixed(2)} %)`);
  expect(share).toBeLessThan(0.01);
});
