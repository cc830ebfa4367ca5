import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defineWorkflow } from "agentserve";
import type { JSHandle, Page } from "playwright-core";
import { describe, expect, it, onTestFinished } from "vitest";
import { embedded } from "../../src/backends/embedded/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer, type OpenServer } from "../../src/server/create.ts";
import { createFolder } from "../harness/folders.ts";
import { createTestLogger } from "../harness/server.ts";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import { openTab } from "./tab.ts";

/** The length of the suspension in which the stream stays open: one comment, or four. */
const suspendedMs = bySize(16_000, 60_000);

const asks = defineWorkflow({ id: "asks" })
  .andThen({ id: "ask", execute: ({ suspend, resumeData }) => resumeData ?? suspend("Approve?") })
  .andThen({ id: "after", execute: () => "done" });
const quick = defineWorkflow({ id: "quick" }).andThen({ id: "only", execute: () => "done" });

interface Heard {
  readonly readyState: number;
  readonly ids: string[];
  readonly events: { type: string; seq?: number; status?: string }[];
  readonly errors: number;
}
/** An EventSource of the page, and all that it has heard. */
async function listen(page: Page, path: string): Promise<{ heard(): Promise<Heard> }> {
  const source: JSHandle = await page.evaluateHandle((url) => {
    const events: unknown[] = [];
    const ids: string[] = [];
    const counts = { errors: 0 };
    const opened = new EventSource(url);
    opened.addEventListener("message", ({ data, lastEventId }) => {
      events.push(JSON.parse(data as string));
      ids.push(lastEventId);
    });
    opened.addEventListener("error", () => counts.errors++);
    return { opened, events, ids, counts };
  }, path);
  return {
    heard: () =>
      source.evaluate(({ opened, events, ids, counts }) => ({
        readyState: opened.readyState,
        events,
        ids,
        errors: counts.errors,
      })),
  };
}
const closed = 2; // EventSource.CLOSED

describe("an EventSource", () => {
  /** The paths of the streams that the browser has asked for. */
  function countStreams(): string[] {
    const arrived: string[] = [];
    const hear = (message: unknown): void => {
      const { url = "" } = (message as { request: IncomingMessage }).request;
      if (url.includes("/stream")) arrived.push(url);
    };
    subscribe("http.server.request.start", hear);
    onTestFinished(() => void unsubscribe("http.server.request.start", hear));
    return arrived;
  }

  async function serve(file: string, port = 0): Promise<{ server: OpenServer; url: string }> {
    const limits = { drainMs: 100 };
    const project = toProject({ workflows: [asks, quick], backend: embedded({ path: file }), server: { limits } });
    const server = openServer(project, { mode: "start", logger: createTestLogger([]) });
    onTestFinished(() => server.close());
    return { server, url: (await server.listen({ port })).url };
  }
  const post = (url: string, body: unknown): Promise<Response> =>
    fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

  it("ends an EventSource on a completed execution after one reconnect", async () => {
    const { url } = await serve(":memory:");
    await post(`${url}/workflows/quick/execute`, { input: {}, options: { executionId: "e" } });
    const tab = await openTab(`${url}/doc`);
    const arrived = countStreams();
    const { heard } = await listen(tab.page, "/workflows/quick/executions/e/stream");
    await until(async () => (await heard()).readyState === closed, "the EventSource to stay closed");
    const { events, ids } = await heard();
    expect(arrived).toHaveLength(2);
    expect(events.map(({ type }) => type).at(-1)).toBe("workflow-result");
    expect(events.filter(({ type }) => type === "workflow-result")).toHaveLength(1);
    expect(ids.at(-1)).toBe(`${events.at(-2)!.seq}.end`);
  });

  it("keeps an EventSource with until=end open over a suspension and a restart, and sends each seq once", async () => {
    const folder = createFolder("event-source");
    const file = join(folder, "data.db");
    const { server: first, url } = await serve(file);
    await post(`${url}/workflows/asks/execute`, { input: {}, options: { executionId: "e" } });
    const tab = await openTab(`${url}/doc`);
    const arrived = countStreams();
    const { heard } = await listen(tab.page, "/workflows/asks/executions/e/stream?until=end");
    await until(async () => (await heard()).events.at(-1)?.type === "workflow-suspended", "the suspension");
    await sleep(suspendedMs);
    expect([arrived.length, (await heard()).errors]).toEqual([1, 0]);

    await first.close();
    await serve(file, Number(new URL(url).port));
    await until(() => arrived.length === 2, "the EventSource to come back");
    await post(`${url}/workflows/asks/executions/e/resume`, { resumeData: { ok: true } });
    await until(async () => (await heard()).readyState === closed, "the EventSource to stay closed");
    const { events, ids } = await heard();
    const seqs = events.flatMap(({ seq }) => (seq === undefined ? [] : [seq]));
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    expect(events.filter(({ type }) => type === "workflow-result")).toMatchObject([{ status: "completed" }]);
    expect(ids.at(-1)).toBe(`${seqs.length}.end`);
    expect(arrived).toHaveLength(3); // the last one got the 204
  });
});
