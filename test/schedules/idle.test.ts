import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { bySize } from "../harness/size.ts";

let child: ChildProcess | undefined;
afterEach(() => void child?.kill("SIGKILL"));

it("a server with 1,000 schedules that are not due takes under 1 % of a processor", { timeout: 300_000 }, async () => {
  child = fork(join(import.meta.dirname, "idle-host.ts"), [String(bySize(5_000, 30_000))]);
  const [figures] = await once(child, "message");
  const { idle, share, listMs } = figures as { idle: number; share: number; listMs: number };
  console.log(`1,000 schedules: ${(100 * share).toFixed(2)} % (none: ${(100 * idle).toFixed(2)} %), list ${listMs} ms`);
  expect(share).toBeLessThan(0.01);
});
