import { expect, it } from "vitest";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import { serve } from "./serve.ts";

const count = bySize(24, 200);
/** The further inputs of each of four clients. */
const turns = bySize(4, 8);
const heapMb = bySize(160, 512);
/** The heap, and the bytes that are outside of it: code, bodies as they arrive, pages of SQLite, socket buffers. */
const maxMb = heapMb + bySize(350, 500);
const timeout = bySize(300_000, 1_200_000);
const bodyBytes = 2_097_152;

/**
 * Starts many executions with inputs of almost 2 MiB, first all at once and then by four clients, on a small heap. The
 * process must live, and complete every execution that it has accepted.
 */
export function itSurvivesInputs(kind: string, pad: (space: number) => string): void {
  const toBody = (n: number): string => {
    const before = `{"options":{"executionId":"h${n}"},"input":{"n":${n},"pad":`;
    return `${before}${pad(bodyBytes - before.length - 100)}}}`;
  };
  it(
    `survives ${count} executions with inputs of 2 MB at once with a heap of ${heapMb} MB: ${kind}`,
    async () => {
      // On a busy machine, a body takes longer to arrive than the default allows.
      const server = await serve({ heapMb, bounds: { headersMs: 600_000, requestMs: 600_000 } });
      const start = async (n: number): Promise<Answer> => {
        const headers: Record<string, string> = n < count && n % 2 === 0 ? { prefer: "respond-async" } : {};
        const response = await server.post("/workflows/heavy/execute", toBody(n), headers).catch(toLost);
        if (response instanceof Error) return { n, status: "lost", retryAfter: null };
        await response.arrayBuffer();
        return { n, status: String(response.status), retryAfter: response.headers.get("retry-after") };
      };
      const answers = await Promise.all(Array.from({ length: count }, (_, n) => start(n)));
      // A body arrives while the execution of the one before it is still running.
      const clients = Array.from({ length: 4 }, async (_, client) => {
        for (let turn = 0; turn < turns; turn++) answers.push(await start(count + client * turns + turn));
      });
      await Promise.all(clients);
      const statuses = Object.groupBy(answers, ({ status }) => status);
      const counts = Object.entries(statuses).map(([status, all]) => `${status}: ${all!.length}`);
      if (statuses["lost"]) await until(() => !server.lives(), "the end of a process that has dropped connections");
      console.log(
        `${kind}: ${counts.join(", ")}, RSS ${server.lives() ? JSON.stringify(server.rss()) : "(it has ended)"}`,
      );

      expect(server.lives(), server.child.output().stderr.slice(-2_000)).toBe(true);
      expect(answers.filter(({ status }) => !["200", "202", "503"].includes(status))).toEqual([]);
      for (const { retryAfter } of statuses["503"] ?? []) expect(Number(retryAfter)).toBeGreaterThan(0);
      const taken = answers.filter(({ status }) => status !== "503");
      expect(taken.length, "executions that were accepted").toBeGreaterThan(0);
      for (const { n } of taken) {
        // The event of the result, because the state has the input of 2 MB.
        const path = `/workflows/heavy/executions/h${n}/stream?after=3`;
        await until(
          async () => (await (await server.get(path)).text()).includes('"status":"completed"'),
          `execution h${n}, which was accepted`,
        );
      }
      expect(server.rss().peak, "MB").toBeLessThan(maxMb);
      const afterwards = async () =>
        (await server.post("/workflows/heavy/execute", toBody(count + 4 * turns))).status === 200;
      await until(afterwards, "a 200 once the load is over");
    },
    timeout,
  );
}

interface Answer {
  readonly n: number;
  readonly status: string;
  readonly retryAfter: string | null;
}

const toLost = (error: unknown): Error => error as Error;

/** Returns a JSON array of this many characters at most. */
export function repeat(item: string, space: number): string {
  return `[${item}${`,${item}`.repeat(Math.floor((space - item.length - 2) / (item.length + 1)))}]`;
}
