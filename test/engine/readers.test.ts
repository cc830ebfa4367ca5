import { expect, it } from "vitest";
import { readEvents, type EventPage, Readers } from "../../src/engine/runs/readers.ts";
import { toEvents, type EventBody, type LiveEvent, type StoredEvent } from "../../src/engine/events.ts";

const toOne = (seq: number, body: EventBody): StoredEvent => toEvents("e", { at: 0, seq, events: [body] })[0]!;

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

it("shows live events to a reader that listened before the start, though the execution ends while the store is read", async () => {
  const readers = new Readers(100 * size);
  const reader = readers.open("e", new AbortController().signal);
  const stored = [toOne(1, { type: "workflow-start" }), toOne(2, { type: "workflow-complete", status: "completed" })];
  let isRunning = true;
  const read = async ({ seq, row }: { seq: number; row: number }): Promise<EventPage> => {
    if (isRunning) {
      for (const one of [stored[0]!, event, stored[1]!]) readers.publish("e", one);
      isRunning = false;
    }
    await new Promise((resolve) => setImmediate(resolve));
    return { events: stored.slice(seq), last: { seq: stored.length, row } };
  };
  const seen: string[] = [];
  for await (const { type } of readEvents({ read, isOpen: () => isRunning }, reader, 0)) seen.push(type);
  expect(seen).toEqual(["workflow-start", "noise", "workflow-complete"]);
});

it("reads the events from the store that were published before a reader listened", async () => {
  const readers = new Readers(10 * size);
  const reader = readers.open("e", new AbortController().signal);
  const stored = [toOne(1, { type: "workflow-start" })];
  const read = ({ seq, row }: { seq: number; row: number }): EventPage => {
    return { events: stored.slice(seq), last: { seq: stored.length, row } };
  };
  const events = readEvents({ read, isOpen: () => true }, reader, 0);
  const seqs = [(await events.next()).value!.seq];
  const second = events.next();
  await new Promise((resolve) => setImmediate(resolve)); // it waits for a live event
  stored.push(...[2, 3].map((seq) => toOne(seq, { type: "step-start", from: "s" })));
  readers.publish("e", stored[2]!);
  seqs.push((await second).value!.seq);
  expect(seqs).toEqual([1, 2]);
  expect((await events.next()).value!.seq).toBe(3);
});

it("ends the events with the execution for a reader that claims to have read further", async () => {
  const readers = new Readers(10 * size);
  const reader = readers.open("e", new AbortController().signal);
  let isRunning = true;
  const read = (): EventPage => ({ events: [], last: { seq: 99, row: 0 } });
  const events = readEvents({ read, isOpen: () => isRunning }, reader, 99);
  const next = events.next();
  await new Promise((resolve) => setImmediate(resolve));
  isRunning = false;
  readers.publish("e", toOne(2, { type: "workflow-complete", status: "completed" }));
  expect(await next).toEqual({ done: true, value: undefined });
});
