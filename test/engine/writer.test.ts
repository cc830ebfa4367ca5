import { expect, it } from "vitest";
import { Writer } from "../../src/backends/embedded/writer.ts";

/** A store of one list: what a transaction wrote is there only when all of it went well. */
function setUp() {
  const stored: string[] = [];
  const sizes: number[] = [];
  let writing: string[] = [];
  const writer = new Writer((work) => {
    writing = [];
    const result = work();
    stored.push(...writing);
    sizes.push(writing.length);
    return result;
  });
  const write = (text: string, fails = false) =>
    writer.commit(() => {
      if (fails) throw new Error(`${text} cannot be written`);
      return writing.push(text);
    });
  return { stored, sizes, writer, write };
}

it("commits what arrives in one turn together, in order", async () => {
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
  const outcomes = await Promise.allSettled([write("a"), write("b", true), write("c")]);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(stored).toEqual(["a", "c"]);
});

it("commits what is left when it is closed, and refuses what comes later", async () => {
  const { stored, writer, write } = setUp();
  const last = write("a");
  writer.close();
  await last;
  await expect(write("b")).rejects.toThrow("The store is closed");
  expect(stored).toEqual(["a"]);
});
