import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Writer } from "../../src/backends/embedded/store/writer.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

const full = Object.assign(new Error("database or disk is full"), { code: "ERR_SQLITE_ERROR", errcode: 13 });

/** A store of one list: what a transaction wrote is there only when all of it went well. */
function setUp() {
  const stored: string[] = [];
  const sizes: number[] = [];
  const said: string[] = [];
  let writing: string[] = [];
  const disk = { fails: false, busyAt: "" };
  const writer = new Writer({
    store: {
      transaction(work) {
        writing = [];
        const result = work();
        if (disk.fails || writing.includes(disk.busyAt)) throw full;
        stored.push(...writing);
        sizes.push(writing.length);
        return result;
      },
    },
    onStall: () => said.push("fault"),
    onRecovery: () => said.push("mended"),
  });
  /** `gives`: whether it gives up when the store cannot be written. */
  const write = (text: string, { fails = false, gives = false } = {}) =>
    new Promise<string>((resolve, reject) => {
      writer.write({
        work: () => {
          if (fails) throw new Error(`${text} cannot be written`);
          writing.push(text);
          return text;
        },
        done: resolve,
        fail: reject,
        stalled(error: unknown) {
          if (gives) reject(error);
          return gives;
        },
      });
    });
  return { stored, sizes, said, disk, writer, write };
}

it("commits the jobs of one turn of the event loop together, in order", async () => {
  const { stored, sizes, write } = setUp();
  await Promise.all(["a", "b", "c"].map((text) => write(text)));
  await write("d");
  expect([stored, sizes]).toEqual([
    ["a", "b", "c", "d"],
    [3, 1],
  ]);
});

it("lets a job that fails fail alone", async () => {
  const { stored, write } = setUp();
  const outcomes = await Promise.allSettled([write("a"), write("b", { fails: true }), write("c")]);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(stored).toEqual(["a", "c"]);
});

it("commits the jobs that are left when the writer is closed, and refuses later ones", async () => {
  const { stored, writer, write } = setUp();
  const last = write("a");
  writer.close();
  await last;
  await expect(write("b")).rejects.toThrow("The store is closed");
  expect(stored).toEqual(["a"]);
});

it("keeps jobs while the store fails, and writes them in order once it can", async () => {
  const { stored, said, disk, writer, write } = setUp();
  disk.fails = true;
  const kept = [write("a"), write("b")];
  const given = expect(write("asked", { gives: true })).rejects.toThrow(full);
  await vi.advanceTimersByTimeAsync(2_000);
  await given;
  expect([said, writer.stallCause]).toEqual([["fault"], full]);
  kept.push(write("c"));
  // Another one waits as long: the fault may be over at any moment.
  const refused = expect(write("asked again", { gives: true })).rejects.toThrow(full);
  await vi.advanceTimersByTimeAsync(1_500);
  await refused;
  disk.fails = false;
  await vi.advanceTimersByTimeAsync(250);
  await Promise.all(kept);
  expect([stored, said, writer.stallCause]).toEqual([["a", "b", "c"], ["fault", "mended"], undefined]);
});

it("keeps the order when one job fails for good and the store fails for the next", async () => {
  const { stored, disk, writer, write } = setUp();
  disk.busyAt = "a";
  const bad = (): never => {
    throw new Error("it cannot be written");
  };
  const good: Promise<string>[] = [];
  writer.write({ work: bad, done: () => {}, fail: () => good.push(write("after")) }); // before the store fails
  good.push(...["a", "b", "c"].map((text) => write(text)));
  await vi.advanceTimersByTimeAsync(100);
  expect([good.length, stored]).toEqual([4, []]);
  disk.busyAt = "";
  await vi.advanceTimersByTimeAsync(100);
  expect(stored).toEqual(["a", "b", "c", "after"]);
  await Promise.all(good);
});

it("tells nobody of a store that is busy for less than a second", async () => {
  const { stored, said, disk, write } = setUp();
  disk.fails = true;
  const asked = write("a", { gives: true });
  await vi.advanceTimersByTimeAsync(900);
  disk.fails = false;
  await vi.advanceTimersByTimeAsync(250);
  expect(await asked).toBe("a");
  expect([stored, said]).toEqual([["a"], []]);
});

it("waits for a busy store also after a fault that lasted", async () => {
  const { said, disk, write } = setUp();
  disk.fails = true;
  const given = expect(write("a", { gives: true })).rejects.toThrow(full);
  await vi.advanceTimersByTimeAsync(2_000);
  await given;
  const asked = write("b", { gives: true });
  await vi.advanceTimersByTimeAsync(500);
  disk.fails = false;
  await vi.advanceTimersByTimeAsync(250);
  expect([await asked, said]).toEqual(["b", ["fault", "mended"]]);
});

it("finds out by the next request that the store can be written again, when nothing waits", async () => {
  const { stored, said, disk, write } = setUp();
  disk.fails = true;
  const given = expect(write("a", { gives: true })).rejects.toThrow(full);
  await vi.advanceTimersByTimeAsync(2_000);
  await given;
  disk.fails = false;
  expect(await write("b", { gives: true })).toBe("b");
  expect([stored, said]).toEqual([["b"], ["fault", "mended"]]);
});

it("leaves jobs that cannot be written at the end to the next start", async () => {
  const { stored, disk, writer, write } = setUp();
  disk.fails = true;
  const lost = write("a");
  writer.close();
  await expect(lost).rejects.toThrow(full);
  expect(stored).toEqual([]);
});
