import { connect } from "node:net";
import fc from "fast-check";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { toWebResponse } from "../../src/http/envelope.ts";
import { createStreams, EventStream } from "../../src/http/sse.ts";
import { withBounds } from "../harness/bounds.ts";
import { neverMs } from "../harness/patience.ts";
import { seen, testRows } from "../harness/rows.ts";
import { describeServer } from "../harness/server.ts";
import { bySize } from "../harness/size.ts";
import { eventually } from "../harness/waiting.ts";

// A reader that has disconnected is noticed by its connection, not by the time that it does not read.
const config = withBounds({ sseStreams: 2, sseStallMs: neverMs }, {});

describeServer("an event stream", { config, rows: testRows }, (server) => {
  const read = async (path: string, signal?: AbortSignal) => {
    const response = await server.send(path, signal ? { signal } : {});
    return response.body!.pipeThrough(new TextDecoderStream()).getReader();
  };

  it("sends one data line and an empty line per event, with the headers of a stream", async () => {
    const { text, headers, events } = await server.get("/test/events/three");
    expect(text).toBe([0, 1, 2].map((n) => `data: {"type":"tick","n":${n}}\n\n`).join(""));
    expect(events).toHaveLength(3);
    expect(headers.get("content-type")).toBe("text/event-stream");
    expect(headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(headers.get("x-accel-buffering")).toBe("no");
    expect(headers.get("x-execution-id")).toBe("e1");
    expect(headers.get("access-control-expose-headers")).toContain("x-execution-id");
  });

  it("sends the first event before there is a second", async () => {
    const returned = seen.returned;
    const reader = await read("/test/events/silent");
    expect((await reader.read()).value).toBe('data: {"type":"tick","n":0}\n\n');
    await reader.cancel();
    await eventually(() => expect(seen.returned).toBe(returned + 1));
  });

  it("ends a stream whose generator throws after the first event, and logs the error", async () => {
    server.logs.length = 0;
    const reader = await read("/test/events/breaking");
    expect((await reader.read()).value).toContain("tick");
    expect((await reader.read()).done).toBe(true);
    expect(server.logs).toMatchObject([{ level: "error", data: { error: new Error("after the first event") } }]);
  });

  it("refuses streams beyond limits.sseStreams, and opens new ones when others have ended", async () => {
    const first = await read("/test/events/silent");
    const second = await read("/test/events/silent");
    const third = await server.get("/test/events/three");
    expect([third.status, third.body.error, third.headers.get("retry-after")]).toEqual([
      503,
      "Too many open streams",
      "5",
    ]);
    await first.cancel();
    await eventually(async () => expect((await server.get("/test/events/three")).status).toBe(200));
    await second.cancel();
  });

  it("frees the place of a disconnected reader, also if the generator ignores the signal", async () => {
    const readers = [await read("/test/events/deaf"), await read("/test/events/deaf")];
    expect((await server.get("/test/events/three")).status).toBe(503);
    for (const reader of readers) await reader.cancel();
    await eventually(async () => expect((await server.get("/test/events/three")).status).toBe(200));
  });

  it("aborts a generator that waits for its first event when the reader disconnects", async () => {
    if (server.target === "in process") return; // there, whoever aborts never called
    const returned = seen.returned;
    const leave = new AbortController();
    const asked = read("/test/events/late", leave.signal);
    await eventually(async () => expect(await server.send("/workflows", {})).toBeTruthy());
    leave.abort();
    await expect(asked).rejects.toThrow();
    await eventually(() => expect(seen.returned).toBe(returned + 1));
  });
});

const stalling = withBounds({ sseStallMs: 300 }, {});
describeServer("a reader who never reads", { config: stalling, rows: testRows, only: ["dev", "start"] }, (server) => {
  it("stops the generator of a reader that does not read, and cuts it after sseStallMs", async () => {
    const { made, returned } = seen;
    const { port } = new URL((await server.send("/workflows", {})).url);
    const socket = connect(Number(port), "127.0.0.1");
    const closed = new Promise((resolve) => socket.on("close", resolve));
    socket.on("error", () => {});
    socket.write("GET /test/events/endless HTTP/1.1\r\nHost: localhost\r\n\r\n");
    socket.pause();
    await eventually(() => expect(seen.returned).toBe(returned + 1));
    // What the two kernels' buffers took, and one event here: far from endless.
    expect(seen.made - made).toBeLessThan(20_000);
    socket.resume();
    await closed;
  });
});

describe("createStreams", () => {
  const decoder = new TextDecoder();

  it("sends a comment on a silent stream", async () => {
    const streams = createStreams({ sseStreams: 1, sseStallMs: 1_000, heartbeatMs: 30, report: () => {} });
    async function* silent(signal: AbortSignal) {
      yield 1;
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    }
    const response = toWebResponse(await streams.open(new EventStream(silent), new AbortController().signal));
    const reader = response.body!.getReader();
    expect(decoder.decode((await reader.read()).value)).toBe("data: 1\n\n");
    expect(decoder.decode((await reader.read()).value)).toBe(":\n\n");
    streams.close();
    expect((await reader.read()).done).toBe(true);
    expect(streams.size).toBe(0);
  });

  it.each([
    ["backward", -3_600_000],
    ["forward", 3_600_000],
  ])("sends comments, and cuts no reader, when the clock jumps %s", async (_, ms) => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "Date", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const streams = createStreams({ sseStreams: 1, sseStallMs: 600_000, heartbeatMs: 15_000, report: () => {} });
    async function* silent(signal: AbortSignal) {
      yield 1;
      yield 2; // waits for the reader
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    }
    const response = toWebResponse(await streams.open(new EventStream(silent), new AbortController().signal));
    vi.setSystemTime(Date.now() + ms);
    vi.advanceTimersByTime(3_000);
    expect(streams.size).toBe(1);
    const reader = response.body!.getReader();
    const next = async (): Promise<string> => decoder.decode((await reader.read()).value);
    expect([await next(), await next()]).toEqual(["data: 1\n\n", "data: 2\n\n"]);
    const comment = next();
    vi.setSystemTime(Date.now() + ms);
    vi.advanceTimersByTime(20_000);
    expect(await comment).toBe(":\n\n");
    streams.close();
  });

  it("keeps a slow reader that takes each event within sseStallMs, and cuts it once it takes none", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const streams = createStreams({ sseStreams: 1, sseStallMs: 1_000, heartbeatMs: neverMs, report: () => {} });
    async function* endless() {
      for (let n = 0; ; n++) yield n;
    }
    const response = toWebResponse(await streams.open(new EventStream(endless), new AbortController().signal));
    const reader = response.body!.getReader();
    for (let n = 0; n < 5; n++) {
      expect(decoder.decode((await reader.read()).value)).toBe(`data: ${n}\n\n`);
      await new Promise((resolve) => setImmediate(resolve)); // the next event is made, and waits for the reader
      vi.advanceTimersByTime(800);
      expect(streams.size).toBe(1);
    }
    vi.advanceTimersByTime(800);
    expect(streams.size).toBe(0);
    await expect(reader.read()).rejects.toThrow("The reader stalled");
  });

  const never = new AbortController().signal;
  async function* waiting(signal: AbortSignal) {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    yield 1;
  }

  it("counts streams that wait for their first event, until their reader disconnects", async () => {
    const streams = createStreams({ sseStreams: 1, sseStallMs: 1_000, report: () => {} });
    const gone = new AbortController();
    async function* deaf() {
      await new Promise(() => {});
      yield 1;
    }
    void streams.open(new EventStream(deaf), gone.signal);
    await expect(streams.open(new EventStream(waiting), never)).rejects.toMatchObject({ status: 503 });
    gone.abort();
    const next = streams.open(new EventStream(waiting), never);
    streams.close();
    await expect(next).rejects.toMatchObject({ message: "Server is shutting down" });
  });

  it("aborts a generator whose reader disconnected before it began", async () => {
    const streams = createStreams({ sseStreams: 1, sseStallMs: 1_000, report: () => {} });
    let told = false;
    async function* asks(signal: AbortSignal) {
      told = signal.aborted;
      yield 1;
    }
    await streams.open(new EventStream(asks), AbortSignal.abort());
    expect(told).toBe(true);
    streams.close();
  });

  it("ends a stream with the last frame of its options", async () => {
    const streams = createStreams({ sseStreams: 1, sseStallMs: 1_000, report: () => {} });
    async function* two() {
      yield 1;
      yield 2;
    }
    const response = toWebResponse(await streams.open(new EventStream(two, [], { last: "[DONE]" }), never));
    expect(await response.text()).toBe("data: 1\n\ndata: 2\n\ndata: [DONE]\n\n");
    streams.close();
  });

  it("writes one id line and one data line per event, whatever the event contains", async () => {
    const text = fc.oneof(
      fc.constantFrom("\n\ndata: 1\n\n", "\r", "\r\nid: 9\r\n\r\n", "\u2028", "\u0085", "\ud800", "\0", "event: x\n"),
      fc.string({ unit: "binary" }),
    );
    const value = fc.oneof(text, fc.jsonValue(), fc.integer(), fc.double(), fc.constant(undefined));
    const event = fc.record({ type: text, seq: value, id: value, event: value });
    await fc.assert(
      fc.asyncProperty(fc.array(event, { minLength: 1, maxLength: 4 }), fc.boolean(), async (sent, ids) => {
        const streams = createStreams({ sseStreams: 1, sseStallMs: neverMs, report: () => {} });
        async function* all() {
          yield* sent;
        }
        const response = toWebResponse(await streams.open(new EventStream(all, [], { ids }), never));
        const frames = (await response.text()).split("\n\n");
        streams.close();
        expect(frames.pop()).toBe("");
        expect(frames).toHaveLength(sent.length);
        for (const [index, frame] of frames.entries()) {
          const { seq } = sent[index]!;
          const id = ids && Number.isSafeInteger(seq) && Number(seq) > 0 ? `id: ${Number(seq)}\n` : "";
          expect(frame).not.toContain("\r");
          expect(frame).toBe(`${id}data: ${JSON.stringify(sent[index])}`);
        }
      }),
      { numRuns: bySize(50, 10_000) },
    );
  });

  it("lets draining streams end by themselves when it closes, before and after their first event", async () => {
    const streams = createStreams({ sseStreams: 3, sseStallMs: 1_000, report: () => {} });
    const go = Promise.withResolvers<void>();
    async function* early() {
      yield 1;
      await go.promise;
      yield 2;
    }
    async function* late() {
      await go.promise;
      yield 3;
    }
    const cut = toWebResponse(await streams.open(new EventStream(early), never));
    const kept = toWebResponse(await streams.open(new EventStream(early, [], { drains: true }), never));
    const starting = streams.open(new EventStream(late, [], { drains: true }), never);
    const reader = cut.body!.getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe("data: 1\n\n");
    streams.close();
    expect((await reader.read()).done).toBe(true);
    go.resolve();
    expect(await kept.text()).toBe("data: 1\n\ndata: 2\n\n");
    expect(await toWebResponse(await starting).text()).toBe("data: 3\n\n");
    await expect(streams.open(new EventStream(early, [], { drains: true }), never)).rejects.toMatchObject({
      status: 503,
    });
  });

  it("yields to the event loop while a generator always has more", async () => {
    const streams = createStreams({ sseStreams: 1, sseStallMs: 1_000, report: () => {} });
    let made = 0;
    async function* eager() {
      while (made < 200) {
        for (const until = performance.now() + 0.5; performance.now() < until;); // what it takes to make one
        yield made++;
      }
    }
    const response = toWebResponse(await streams.open(new EventStream(eager), never));
    let before = 0;
    const turn = new Promise<void>((resolve) => setImmediate(() => resolve((before = made) as never)));
    const text = response.text();
    await turn;
    expect(before).toBeLessThan(50);
    expect((await text).split("\n\n")).toHaveLength(201);
    streams.close();
  });

  it("rejects a stream whose first event cannot be written", async () => {
    const streams = createStreams({ sseStreams: 1, sseStallMs: 1_000, report: () => {} });
    async function* big() {
      yield 1n;
    }
    await expect(streams.open(new EventStream(big), never)).rejects.toThrow("BigInt");
    streams.close();
  });

  it("refuses streams that still wait for their first event when it closes", async () => {
    const streams = createStreams({ sseStreams: 1, sseStallMs: 1_000, report: () => {} });
    async function* late(signal: AbortSignal) {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      yield 1;
    }
    const opening = streams.open(new EventStream(late), new AbortController().signal);
    streams.close();
    await expect(opening).rejects.toMatchObject({ status: 503, message: "Server is shutting down" });
    await expect(streams.open(new EventStream(late), new AbortController().signal)).rejects.toMatchObject({
      status: 503,
    });
  });
});
