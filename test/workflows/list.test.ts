import { DatabaseSync } from "node:sqlite";
import { andThen, defineWorkflow } from "agentserve";
import { expect, it, onTestFinished, vi } from "vitest";
import type { ListFilter } from "../../src/engine/contract/engine.ts";
import { Store } from "../../src/backends/embedded/store/store.ts";
import { onFile } from "../harness/backends.ts";
import { describeInProcess, startTestServer } from "../harness/server.ts";

const textOf = (bytes: number): string => "x".repeat(bytes);
const longBytes = 1_000_000;
const echo = defineWorkflow({ id: "echo" }).andThen({ id: "only", execute: ({ data }) => data });
const asks = defineWorkflow({ id: "asks" }).andThen({
  id: "ask",
  execute: ({ suspend, resumeData }) => resumeData ?? suspend(textOf(longBytes), { text: textOf(longBytes) }),
});
const asksTwice = defineWorkflow({ id: "asks-twice" }).andAll({
  id: "both",
  steps: [10, 12_000].map((bytes) =>
    andThen({
      id: `ask-${bytes}`,
      execute: ({ suspend }): unknown => suspend("Approve?", { text: textOf(bytes) } as never),
    }),
  ),
});
const fails = defineWorkflow({ id: "fails" }).andThen({
  id: "only",
  execute: () => {
    throw new Error(textOf(longBytes));
  },
});
const config = { workflows: [echo, asks, asksTwice, fails], server: { limits: { bodyBytes: 8_000_000 } } };
const search = "SEARCH executions USING";
const byStatus = expect.stringMatching(
  /^SEARCH executions USING (COVERING )?INDEX executions_by_status \(workflow=\? AND status=\?$/,
);
const byUserAndStatus = `${search} COVERING INDEX executions_by_user_and_status (workflow=? AND user=? AND status=?`;
const running = "SCAN executions USING INDEX executions_running"; // as many as run
const byWorkflow = `${search} INDEX executions_by_workflow (workflow=?`;
const byUser = `${search} INDEX executions_by_user (workflow=? AND user=?`;
const byId = `${search} INDEX sqlite_autoindex_executions_1 (id>? AND id<?)`;

/** The marker of `{ "text": "x…" }`. */
const truncated = (bytes: number) => ({ $truncated: true, bytes: bytes + '{"text":""}'.length });

describeInProcess("GET /workflows/:id/executions", config, (server) => {
  const begin = (workflow: string, input: unknown, options: object = {}) =>
    server.post(`/workflows/${workflow}/execute`, { input, options });
  const list = async (workflow: string, query = "") =>
    (await server.get(`/workflows/${workflow}/executions${query}`)).body.data;

  it("lists long values as a marker with their size, which the state has in full", async () => {
    const input = { text: textOf(longBytes) };
    const context = { text: textOf(20_000) };
    await begin("echo", input, { executionId: "long", context, userId: "anna", conversationId: "c" });
    await begin("echo", { text: "short" }, { executionId: "short", context: { tenant: "t" } });
    const { items } = await list("echo");
    expect(items[0]).toMatchObject({ input: { text: "short" }, result: { text: "short" }, context: { tenant: "t" } });
    expect(items[1]).toMatchObject({
      executionId: "long",
      status: "completed",
      endAt: expect.any(String),
      input: truncated(longBytes),
      result: truncated(longBytes),
      context: { ...truncated(20_000), userId: "anna", conversationId: "c" },
    });
    const { data } = (await server.get("/workflows/echo/executions/long/state")).body;
    expect(data).toMatchObject({ input, result: input, context });
  });

  it("cuts the data, reasons and messages of suspensions, cancellations and errors in lists", async () => {
    await begin("asks", {}, { executionId: "suspended" });
    const { suspension } = (await list("asks")).items[0];
    expect(suspension).toMatchObject({ stepId: "ask", stepIndex: 0, data: truncated(longBytes) });
    expect(suspension.reason).toMatch(/^x{4096}…$/);
    await server.post("/workflows/asks/executions/suspended/cancel", { reason: textOf(longBytes) });
    expect((await list("asks")).items[0].cancellation.reason).toMatch(/^x{4096}…$/);

    await begin("asks-twice", {});
    const { pending } = (await list("asks-twice")).items[0].suspension;
    expect(pending.map(({ data }: any) => data)).toEqual([{ text: textOf(10) }, { text: textOf(12_000) }]);

    await begin("fails", {});
    expect((await list("fails")).items[0]).toMatchObject({ status: "error", error: "Failed to execute workflow" });
  });

  it("ends a page of executions after 4 MiB, and continues at its cursor", async () => {
    const ids = Array.from({ length: 160 }, (_, index) => `page-${index}`);
    for (const executionId of ids) await begin("echo", { text: textOf(16_000) }, { executionId });
    const { text } = await server.get("/workflows/echo/executions?limit=200");
    expect(text.length).toBeLessThan(5_000_000);
    const seen: string[] = [];
    let pages = 0;
    for (let cursor: string | null = ""; cursor !== null; pages++) {
      const page: any = await list("echo", `?limit=200${cursor && `&cursor=${cursor}`}`);
      seen.push(...page.items.map(({ executionId }: any) => executionId));
      cursor = page.nextCursor;
    }
    expect(pages).toBe(2);
    expect(seen.slice(0, ids.length)).toEqual(ids.toReversed());
    expect(new Set(seen).size).toBe(seen.length);
  });
});

it("answers other requests while a list reads long rows", async () => {
  const server = await startTestServer("in process", { config, backend: onFile(":memory:") });
  for (let i = 0; i < 20; i++) await server.post("/workflows/echo/execute", { input: { text: textOf(longBytes) } });
  let turns = 0;
  let isOver = false;
  const count = (): void => void (!isOver && ++turns && setImmediate(count));
  // The time of a row is up to the machine: with this clock every row takes longer than a turn may.
  let now = performance.now();
  const clock = vi.spyOn(performance, "now").mockImplementation(() => (now += 10));
  onTestFinished(() => clock.mockRestore());
  const answer = server.get("/workflows/echo/executions?limit=200");
  count();
  expect((await answer).body.data.items.length).toBe(20);
  isOver = true;
  expect(turns).toBeGreaterThan(20);
});

it.each([
  ["one workflow", { workflowId: "w" }, [byWorkflow]],
  ["one workflow and one status", { workflowId: "w", status: ["suspended"] }, [byStatus]],
  ["one workflow and a status of most", { workflowId: "w", status: ["completed"] }, [byWorkflow]],
  ["one workflow and its running ones", { workflowId: "w", status: ["running"] }, [running]],
  ["one workflow and one user", { workflowId: "w", userId: "u" }, [byUser]],
  ["one workflow, user and status", { workflowId: "w", userId: "u", status: ["error"] }, [byUserAndStatus]],
  ["all workflows", {}, [byWorkflow]],
  ["all workflows and two statuses", { status: ["error", "running"] }, [byStatus, running]],
  ["all workflows and one user", { userId: "u" }, [byUser]],
  ["all workflows and one kind", { kind: ["person"] }, [byStatus]],
  ["all cancelled ones", { isCancelled: true }, [byStatus]],
  ["a time", { since: 1, until: 2 }, [byWorkflow]],
  ["the beginning of an id", { idPrefix: "e", workflowId: "w", userId: "u", status: ["error"] }, [byId]],
] satisfies [string, Omit<ListFilter, "limit">, string[]][])(
  "finds executions of %s by an index",
  async (_, filter, expected) => {
    const store = new Store(":memory:", "normal");
    onTestFinished(() => store.close());
    const execution = { id: "e", workflowId: "w", input: "{}", context: {}, startAt: 1, steps: [] };
    store.insertExecution(1, execution, []);
    const prepare = vi.spyOn(DatabaseSync.prototype, "prepare");
    onTestFinished(() => prepare.mockRestore());
    await store.list.read({ ...filter, limit: 10 });
    const queries = prepare.mock.calls.map(([sql]) => sql).filter((sql) => sql.startsWith("select number"));
    const connection = prepare.mock.contexts[0] as DatabaseSync; // of a method of that class
    const plans = queries.map((sql) => {
      const [first] = connection.prepare(`explain query plan ${sql}`).all() as { detail: string }[];
      return first!.detail.replace(/ AND \(?started.*/, ""); // the place of the page
    });
    expect(plans).toEqual(expected);
  },
);
