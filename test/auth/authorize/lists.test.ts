// Each of these changes makes tests of this file fail: a refused execution in a list; a page that ends at the first refused
// one; a cursor that names a refused one, that skips one or that repeats one; more than 1,000 questions for one page.
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { defineWorkflow, type AuthorizeExecution, type Config } from "agentserve";
import * as v from "valibot";
import { chosenBackend } from "../../harness/backends.ts";
import { cpuMsUntil } from "../../harness/cpu.ts";
import { startServer, type TestServer } from "../../harness/server.ts";
import { bySize } from "../../harness/size.ts";
import { by, trusting } from "./world.ts";

let asked = 0;
let rule: (execution: AuthorizeExecution) => boolean | Promise<boolean> = () => true;
const item = defineWorkflow({ id: "item", input: v.object({ n: v.number() }) }).andThen({
  id: "one",
  execute: () => 1,
});
const config: Config = {
  workflows: [item],
  auth: trusting,
  authorize({ action, execution }) {
    if (action !== "execution.read") return action === "workflow.execute";
    asked++;
    return rule(execution!);
  },
};

/** Restate reads a page by a scan in its own server, with timers of its client. */
const { isDistributed } = chosenBackend;

/** Enough for several pages of 1,000 questions. */
const count = bySize(3_000, 10_000);

describe(`a list with authorize over ${count} executions`, () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer("in process", { config });
    const numbers = Array.from({ length: count }, (_, n) => n).values();
    await Promise.all(
      Array.from({ length: 50 }, async () => {
        for (const n of numbers) {
          const headers = { ...by("ada").headers, "content-type": "application/json" };
          const init = { method: "POST", body: JSON.stringify({ input: { n } }), headers };
          const response = await server.send("/workflows/item/execute", init);
          if (response.status !== 200) throw new Error(await response.text());
        }
      }),
    );
  });
  afterAll(() => server?.close());

  async function readPage(limit: number, cursor: string | null) {
    asked = 0;
    const query = cursor === null ? "" : `&cursor=${cursor}`;
    const response = await server.send(`/workflows/item/executions?limit=${limit}${query}`, by("bob"));
    const { data } = (await response.json()) as { data: { items: any[]; nextCursor: string | null } };
    expect(asked).toBeLessThanOrEqual(1_000);
    expect(data.items.length).toBeLessThanOrEqual(limit);
    return data;
  }

  /** All pages: the executions, and the number of pages. */
  async function readAll(limit: number) {
    const items: any[] = [];
    let pages = 0;
    let cursor: string | null = null;
    do {
      const page = await readPage(limit, cursor);
      pages++;
      items.push(...page.items);
      cursor = page.nextCursor;
      const [, id] = cursor === null ? [] : Buffer.from(cursor, "base64url").toString().split(" ");
      if (cursor !== null) expect(["0", items.at(-1)?.executionId]).toContain(id); // never a refused one
    } while (cursor !== null);
    return { items, pages };
  }

  const isPrime = (n: number): boolean => {
    for (let i = 2; i * i <= n; i++) if (n % i === 0) return false;
    return n > 1;
  };
  it.each<[string, (n: number) => boolean, number]>([
    ["every execution", () => true, 200],
    ["every execution, in pages of one odd size", () => true, 77],
    ["every second one", (n) => n % 2 === 0, 200],
    ["those with a prime number", isPrime, 10],
    ["the oldest and the newest", (n) => n < 5 || n >= count - 5, 50],
    ["a few in the middle", (n) => Math.abs(n - count / 2) < 20, 7],
    ["none", () => false, 200],
  ])("lists the executions that authorize allows, newest first and each once: %s", async (_, isAllowed, limit) => {
    rule = ({ input }) => isAllowed((input as { n: number }).n);
    const { items } = await readAll(limit);
    const numbers = items.map(({ input }) => input.n as number);
    const wanted = Array.from({ length: count }, (__, n) => n).filter(isAllowed);
    expect(numbers.toSorted((a, b) => a - b)).toEqual(wanted);
    const places = items.map(({ startAt, executionId }) => `${startAt} ${executionId}`);
    expect(places).toEqual(places.toSorted().toReversed());
  });

  it("asks authorize about many executions of a list at the same time", async () => {
    let waiting = 0;
    let most = 0;
    rule = async ({ input }) => {
      most = Math.max(most, ++waiting);
      await new Promise(setImmediate);
      waiting--;
      return (input as { n: number }).n === 0;
    };
    const { items } = await readAll(200);
    expect(items).toHaveLength(1);
    expect(most).toBe(200);
  });

  it.skipIf(isDistributed)("ends a page of executions early if authorize does not answer", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    rule = () => new Promise(() => {});
    const began = performance.now();
    const pages = [readPage(200, null)];
    void pages[0]!.then(() => pages.pop());
    while (pages.length > 0) await vi.advanceTimersByTimeAsync(1_000);
    expect(asked).toBe(200);
    expect(performance.now() - began).toBe(5_000); // of the fake clock
    expect(server.logs.filter(({ message }) => message.startsWith("authorize failed"))).toHaveLength(1);
  });

  it.skipIf(isDistributed)(
    "lists a page, and all pages of 10,000 executions, in less than a second of processor time",
    async () => {
      rule = ({ isOwn }) => isOwn;
      await readPage(200, null);
      let pages = 0;
      const page = await cpuMsUntil(() => readPage(200, null));
      const all = await cpuMsUntil(async () => ({ pages } = await readAll(200)));
      console.log(
        `${page.toFixed(0)} ms for a page of 1,000 questions, ${all.toFixed(0)} ms for ${count} in ${pages} pages`,
      );
      expect(page).toBeLessThan(1_000);
      expect((all * 10_000) / count).toBeLessThan(1_000);
    },
  );
});
