import { defineWorkflow, embedded, type Config } from "agentserve";
import { expect, it } from "vitest";
import { Waiters } from "../../src/engine/runs/waiters.ts";
import { startServer, startTestServer } from "../harness/server.ts";
import { newFile } from "../harness/folders.ts";

it("aborts a step that outlasts the drain, reports no failure, and runs it again after the next start", async () => {
  const lives: { key: string; reason: string }[] = [];
  const started = Promise.withResolvers<void>();
  const workflow = defineWorkflow({ id: "slow" }).andThen({
    id: "wait",
    async execute({ signal, idempotencyKey }) {
      if (lives.length > 0) return idempotencyKey;
      started.resolve();
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      lives.push({ key: idempotencyKey, reason: String(signal.reason) });
      throw signal.reason;
    },
  });
  const config: Config = {
    workflows: [workflow],
    backend: embedded({ path: newFile() }),
    server: { limits: { drainMs: 20 } },
  };
  const first = await startServer("in process", { config });
  const waiting = first.post("/workflows/slow/execute", { input: {}, options: { executionId: "x" } });
  await started.promise;
  await first.close();
  expect(await waiting).toMatchObject({ status: 503, body: { error: "Server is shutting down" } });
  expect(lives).toEqual([{ key: "x/wait", reason: "Error: The server is shutting down" }]);
  expect(first.logs.filter(({ message }) => message.startsWith("Step "))).toEqual([]);

  const second = await startTestServer("in process", { config });
  const stream = await second.get("/workflows/slow/executions/x/stream");
  expect(stream.events.at(-1)).toMatchObject({ type: "workflow-result", status: "completed", result: "x/wait" });
});

it("ends the wait of a caller that leaves, and only that one", async () => {
  const waiters = new Waiters();
  const leaving = new AbortController();
  const left = waiters.next("x", 0, leaving.signal);
  const stays = waiters.next("x", 0);
  const gone = new Error("gone");
  leaving.abort(gone);
  await expect(left).rejects.toBe(gone);
  await expect(waiters.next("x", 0, leaving.signal)).rejects.toBe(gone);
  const state = { execution: {} as never, status: "completed", epoch: 1 } as const;
  waiters.notify("x", state);
  expect(await stays).toBe(state);
});
