import { expect, it } from "vitest";
import { Readers } from "../../src/engine/runs/readers.ts";
import type { LiveEvent } from "../../src/engine/events.ts";

const event: LiveEvent = { type: "noise", executionId: "e", from: "s", timestamp: "", pad: "x".repeat(900) };
const size = JSON.stringify(event).length;

it("keeps for a reader who does not read what fits into the buffer, and not one event more", async () => {
  const readers = new Readers(10 * size);
  const reader = readers.open("e", new AbortController().signal);
  for (let i = 0; i < 10; i++) readers.publish("e", event);
  for (let i = 0; i < 10; i++) expect(await reader.next()).toBe(event);
  for (let i = 0; i < 11; i++) readers.publish("e", event);
  expect(await reader.next()).toBe("lagging"); // all dropped at once: nothing is kept beyond the bound
  readers.publish("e", event);
  expect(await reader.next()).toBe(event);
});

it("forgets a reader who leaves", async () => {
  const readers = new Readers(10);
  const leave = new AbortController();
  const reader = readers.open("e", leave.signal);
  const next = reader.next();
  leave.abort();
  expect(await next).toBeUndefined();
});
