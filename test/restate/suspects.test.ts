import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Interruptions } from "../../src/backends/restate/drive/interruptions.ts";
import type { LocalDrive } from "../../src/backends/restate/drive/drives.ts";
import { crashHandlers, type CrashHandler } from "../../src/backends/restate/register/register-crashes.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Executions with their registers, and the rows that they have made. */
class Cluster {
  readonly rescued: string[] = [];
  readonly rows = new Map<string, number>();
  readonly #registers = new Map<string, Map<string, unknown>>();

  readonly client = {
    read: async (_: unknown, id: string) => ({ last: { number: this.rows.get(id) ?? 0 } }),
    writeOnce: async (handler: `register/${CrashHandler}`, id: string, input: any) => {
      const state = this.#registers.get(id) ?? new Map<string, unknown>([["status", { drive: id }]]);
      this.#registers.set(id, state);
      const context = {
        get: async (key: string) => state.get(key),
        set: (key: string, value: unknown) => state.set(key, value),
      };
      return crashHandlers[handler.slice("register/".length) as CrashHandler](context as any, input);
    },
    sendOnce: async (_: unknown, id: string) => this.rescued.push(id) > 0,
  };
}

/** One life of a replica. Its drives were interrupted by a crash. */
class Life {
  /** The ids whose code runs, in the order of their start. */
  readonly ran: string[] = [];
  readonly #ends = new Map<string, { pass(): void; end(): void }>();
  readonly #cluster: Cluster;
  #isOver = false;

  constructor(cluster: Cluster, ids: readonly string[]) {
    this.#cluster = cluster;
    const interruptions = new Interruptions(cluster.client as any);
    const isOver = (): boolean => this.#isOver;
    for (const id of ids) {
      const drive = {
        execution: { id },
        invocation: id,
        get isReleased() {
          return isOver();
        },
      } as unknown as LocalDrive;
      void this.#run(id, interruptions.clear(drive));
    }
  }
  async #run(id: string, clearing: ReturnType<Interruptions["clear"]>): Promise<void> {
    const clearance = await clearing;
    if (!clearance.mayRun || this.#isOver) return;
    this.ran.push(id);
    this.#ends.set(id, clearance);
  }
  async wait(seconds: number): Promise<this> {
    await vi.advanceTimersByTimeAsync(1_000 * seconds);
    return this;
  }
  makeRow(id: string): void {
    this.#cluster.rows.set(id, (this.#cluster.rows.get(id) ?? 0) + 1);
    this.#ends.get(id)!.end();
  }
  pass(id: string): void {
    this.#ends.get(id)!.pass();
  }
  crash(): void {
    this.#isOver = true;
  }
}

/** Executions that two crashes have interrupted, in their third life. */
async function crashTwice(ids: readonly string[]) {
  const cluster = new Cluster();
  const live = (...left: string[]): Life => new Life(cluster, left);
  const second = await live(...ids).wait(0);
  expect(second.ran).toEqual(ids);
  second.crash();
  return { cluster, live, third: live(...ids) };
}

it("suspends only the suspect that a replica started last, and runs the others alone to their next row", async () => {
  const { cluster, live, third } = await crashTwice(["a", "b", "deadly"]);
  await third.wait(70);
  expect(third.ran).toEqual(["a", "b", "deadly"]);
  third.crash();
  const fourth = await live("a", "b", "deadly").wait(600);
  expect(cluster.rescued).toEqual(["deadly"]);
  expect(fourth.ran).toEqual(["a"]);
  fourth.makeRow("a");
  await fourth.wait(600);
  expect(fourth.ran).toEqual(["a", "b"]);
  fourth.crash();
  await live("a", "b").wait(0);
  expect(cluster.rescued, "b was alone").toEqual(["deadly", "b"]);
});

it("starts the next suspect when the one before it, which runs alone, waits for other executions", async () => {
  const { live, third } = await crashTwice(["parent", "child", "deadly"]);
  await third.wait(70);
  third.crash();
  const next = await live("parent", "child").wait(60);
  expect(next.ran).toEqual(["parent"]);
  next.pass("parent");
  await next.wait(0);
  expect(next.ran).toEqual(["parent", "child"]);
});

it("does not count a crash for a suspect that has made a row beside the one that started last", async () => {
  const { cluster, live, third } = await crashTwice(["a", "deadly"]);
  await third.wait(40);
  third.makeRow("a");
  third.crash();
  const fourth = await live("a", "deadly").wait(0);
  expect([cluster.rescued, fourth.ran]).toEqual([["deadly"], ["a"]]);
});
