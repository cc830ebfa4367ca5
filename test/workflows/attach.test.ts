import { join } from "node:path";
import { defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { onFile } from "../harness/backends.ts";
import { createFolder } from "../harness/folders.ts";
import { createGates } from "../harness/gates.ts";
import { describeServer, startServer, startTestServer, type TestServer } from "../harness/server.ts";
import { eventually, within } from "../harness/waiting.ts";

const gates = createGates();
const quick = defineWorkflow({ id: "quick" }).andThen({ id: "only", execute: ({ data }) => data });
/** Asks twice, then ends. */
const asks = defineWorkflow({ id: "asks" })
  .andThen({ id: "first", execute: ({ suspend, resumeData }) => resumeData ?? suspend("First?") })
  .andThen({ id: "second", execute: ({ suspend, resumeData }) => resumeData ?? suspend("Second?") })
  .andThen({ id: "last", execute: () => "done" });
const gated = defineWorkflow({ id: "gated" }).andThen({
  id: "waits",
  execute: ({ executionId }) => gates.pass(executionId),
});
const config = { workflows: [quick, asks, gated], server: { limits: { drainMs: 50 } } };

let counter = 0;
const freshId = (): string => `attach-${++counter}`;

interface Frame {
  readonly id: string | undefined;
  readonly event: any;
}
/** Reads a stream frame by frame. */
function readFrames(response: Response) {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  return {
    /** Resolves to the next frame with an event, or undefined at the end. */
    async next(): Promise<Frame | undefined> {
      for (;;) {
        const end = text.indexOf("\n\n");
        if (end >= 0) {
          const frame = text.slice(0, end);
          text = text.slice(end + 2);
          if (frame === ":") continue;
          const [, id, json] = /^(?:id: (.*)\n)?data: (.*)$/.exec(frame)!;
          return { id, event: JSON.parse(json!) };
        }
        const { done, value } = await within(reader.read(), "a frame");
        if (done) return undefined;
        text += value;
      }
    },
    /** Reads up to the event of this type, and that one. */
    async until(type: string): Promise<Frame[]> {
      const frames: Frame[] = [];
      for (;;) {
        const frame = await this.next();
        if (!frame) throw new Error(`The stream has ended without ${type}`);
        frames.push(frame);
        if (frame.event.type === type) return frames;
      }
    },
    cancel: () => reader.cancel(),
  };
}

const begin = async (server: TestServer, workflow: string): Promise<string> => {
  const executionId = freshId();
  await server.post(`/workflows/${workflow}/execute`, { input: {}, options: { executionId } });
  return executionId;
};
const streamOf = (workflow: string, id: string): string => `/workflows/${workflow}/executions/${id}/stream`;
const after = (id: string) => ({ headers: { "last-event-id": id } });
const seqs = (frames: readonly Frame[]) => frames.flatMap(({ event: { seq } }) => (seq === undefined ? [] : [seq]));
const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);

describeServer("the end of an attach stream", { config, only: ["start"] }, (server) => {
  const resume = (id: string) => server.post(`/workflows/asks/executions/${id}/resume`, { resumeData: { ok: true } });

  it("ends a stream with the id <seq>.end, for which a returning client gets 204 and nothing else", async () => {
    const id = await begin(server, "quick");
    const { text, events } = await server.get(streamOf("quick", id));
    const last = events.at(-2).seq;
    expect(text).toMatch(new RegExp(`\\n\\nid: ${last}\\.end\\ndata: {"type":"workflow-result"[^\\n]*\\n\\n$`));
    expect(events.at(-1)).not.toHaveProperty("seq");
    for (const end of [`${last}.end`, "99.end"]) {
      for (const query of ["", "?until=end"]) {
        const { status, text: body, headers } = await server.get(streamOf("quick", id) + query, after(end));
        expect([status, body, headers.get("content-type")]).toEqual([204, "", null]);
        expect(headers.get("x-execution-id")).toBe(id);
      }
    }
  });

  it("sends the result event again to a client that has only the events, or not all of them", async () => {
    const id = await begin(server, "quick");
    const { events } = await server.get(streamOf("quick", id));
    const last = events.at(-2).seq;
    expect((await server.get(streamOf("quick", id), after(`${last}`))).events).toMatchObject([
      { type: "workflow-result" },
    ]);
    for (const at of [0, last - 1])
      expect((await server.get(streamOf("quick", id), after(`${at}.end`))).events.slice(0, -1)).toEqual(
        events.slice(at, -1),
      );
    const byQuery = await server.get(`${streamOf("quick", id)}?after=${last}`, after("99.end"));
    expect(byQuery.events).toMatchObject([{ type: "workflow-result" }]);
  });

  it("answers <seq>.end with 204 while the execution is suspended, and with further events after a resume", async () => {
    const id = await begin(server, "asks");
    const { text } = await server.get(streamOf("asks", id));
    const [, end = ""] = /id: (\d+\.end)\n/.exec(text) ?? [];
    expect((await server.get(streamOf("asks", id), after(end))).status).toBe(204);
    await resume(id);
    const { status, events } = await server.get(streamOf("asks", id), after(end));
    expect([status, events[0].seq]).toEqual([200, Number.parseInt(end, 10) + 1]);
    expect(events.at(-1)).toMatchObject({ type: "workflow-result", status: "suspended" });
  });

  it("ends no stream of a running execution, whatever id the client sends", async () => {
    const id = freshId();
    const running = server.post("/workflows/gated/execute", { input: {}, options: { executionId: id } });
    await gates.reached(id);
    const response = await server.send(streamOf("gated", id), after("2.end")); // before anything happens
    expect(response.status).toBe(200);
    gates.open(id);
    await running;
    expect(seqs(await readFrames(response).until("workflow-result"))).toEqual([3, 4]);
  });

  it("refuses a wrong Last-Event-ID, a wrong until, and <seq>.end in after", async () => {
    const id = await begin(server, "quick");
    for (const wrong of ["end", ".end", "1.ende", "1.END", "1.end.end", "-1.end", "1e3.end", "9999999999999999.end"]) {
      const { status, body } = await server.get(streamOf("quick", id), after(wrong));
      expect([status, body.error]).toEqual([400, "Invalid Last-Event-ID: expected the seq of an event"]);
    }
    for (const [query, error] of [
      ["after=1.end", "Invalid query: after: expected the seq of an event"],
      ["until=suspension", "Invalid query: until: expected end"],
      ["until=", "Invalid query: until: expected end"],
    ] as const) {
      const { status, body } = await server.get(`${streamOf("quick", id)}?${query}`);
      expect([status, body.error]).toEqual([400, error]);
    }
    const executionId = freshId();
    const posted = await server.post("/workflows/asks/stream?until=x", { input: {}, options: { executionId } });
    expect(posted.status).toBe(200); // it ends at the suspension, and has no ids
    expect(posted.text).not.toContain("id: ");
  });
});

describeServer("a stream with until=end", { config, only: ["start"] }, (server) => {
  const resume = (id: string) => server.post(`/workflows/asks/executions/${id}/resume`, { resumeData: { ok: true } });

  it("keeps a stream with until=end open over suspensions, with each seq once, one result and no held config", async () => {
    const id = await begin(server, "asks");
    const frames = readFrames(await server.send(`${streamOf("asks", id)}?until=end`, {}));
    const seen = await frames.until("workflow-suspended");
    await eventually(() => expect(server.snapshot.holders().size).toBe(0));
    await resume(id);
    seen.push(...(await frames.until("workflow-suspended")));
    await resume(id);
    seen.push(...(await frames.until("workflow-result")));
    expect(await frames.next()).toBeUndefined();
    const last = seqs(seen).at(-1)!;
    expect(seqs(seen)).toEqual(upTo(last));
    expect(seen.filter(({ event }) => event.type === "workflow-result")).toHaveLength(1);
    expect(seen.at(-1)).toMatchObject({ id: `${last}.end`, event: { status: "completed", result: "done" } });
    expect((await server.get(`${streamOf("asks", id)}?until=end`, after(`${last}.end`))).status).toBe(204);
  });

  it("begins a stream with until=end with a comment for a client that has everything, and continues there", async () => {
    const id = await begin(server, "asks");
    const { text } = await server.get(streamOf("asks", id));
    const [, end = ""] = /id: (\d+\.end)\n/.exec(text) ?? [];
    const response = await server.send(`${streamOf("asks", id)}?until=end`, after(end)); // before anything happens
    expect(response.status).toBe(200);
    const frames = readFrames(response);
    await resume(id);
    const seen = await frames.until("workflow-suspended");
    expect(seqs(seen)[0]).toBe(Number.parseInt(end, 10) + 1);
    await server.post(`/workflows/asks/executions/${id}/cancel`, { reason: "enough" });
    seen.push(...(await frames.until("workflow-result")));
    expect(seen.at(-1)!.event).toMatchObject({ status: "error", cancellation: { reason: "enough" } });
    expect(await frames.next()).toBeUndefined();
  });
});

it("counts a stream with until=end as open while its execution is suspended, until its client disconnects", async () => {
  const server = await startTestServer("start", { config, backend: onFile(":memory:") });
  const id = await begin(server, "asks");
  const frames = readFrames(await server.send(`${streamOf("asks", id)}?until=end`, {}));
  await frames.until("workflow-suspended");
  const open = async (): Promise<string> =>
    /^agentserve_streams_open (\d+)$/m.exec((await server.get("/metrics")).text)![1]!;
  expect(await open()).toBe("1");
  await frames.cancel();
  await eventually(async () => expect(await open()).toBe("0"));
});

it("ends a stream with until=end without a result if retention removes its execution", async () => {
  const backend = onFile(":memory:", { retention: { executions: "7d", suspended: "1s" } });
  const server = await startTestServer("in process", { config, backend });
  const id = await begin(server, "asks");
  const frames = readFrames(await server.send(`${streamOf("asks", id)}?until=end`, {}));
  await frames.until("workflow-suspended");
  expect(await frames.next()).toBeUndefined();
  expect((await server.get(`${streamOf("asks", id)}?until=end`)).status).toBe(404);
});

it("continues a stream with until=end after a restart, with each seq once", async () => {
  const folder = createFolder("attach");
  const backend = onFile(join(folder, "data.db"));
  const first = await startServer("start", { config, backend });
  const id = await begin(first, "asks");
  const before = readFrames(await first.send(`${streamOf("asks", id)}?until=end`, {}));
  const seen = await before.until("workflow-suspended");
  await first.close();
  expect(await before.next()).toBeUndefined();
  const second = await startTestServer("start", { config, backend });
  const frames = readFrames(await second.send(`${streamOf("asks", id)}?until=end`, after(seen.at(-1)!.id!)));
  for (let times = 0; times < 2; times++)
    await second.post(`/workflows/asks/executions/${id}/resume`, { resumeData: { ok: true } });
  seen.push(...(await frames.until("workflow-result")));
  expect(seqs(seen)).toEqual(upTo(seqs(seen).at(-1)!));
  expect(seen.filter(({ event }) => event.type === "workflow-result")).toHaveLength(1);
});
