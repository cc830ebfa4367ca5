import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { defineWorkflow, embedded } from "agentserve";
import { expect, it } from "vitest";
import { createFolder } from "../harness/folders.ts";
import { startTestServer } from "../harness/server.ts";

it("refuses both of two retries with 503 while the store cannot be written, and accepts the next one", async () => {
  const mended = { is: false };
  const workflow = defineWorkflow({ id: "w" }).andThen({
    id: "one",
    execute: () => {
      if (!mended.is) throw new Error("it is broken");
      return 1;
    },
  });
  const path = join(createFolder("locked"), "data.db");
  const server = await startTestServer("start", { config: { workflows: [workflow], backend: embedded({ path }) } });
  await server.post("/workflows/w/execute", { input: {}, options: { executionId: "e" } });
  mended.is = true;
  const retry = () => server.post("/workflows/w/executions/e/retry");

  const other = new DatabaseSync(path);
  other.exec("begin immediate");
  // The second one must not hear that the execution has not failed: the first one is not committed.
  const replies = await Promise.all([retry(), retry()]);
  expect(replies.map(({ status }) => status)).toEqual([503, 503]);
  other.exec("rollback");
  other.close();
  expect(await retry()).toMatchObject({ status: 200, body: { data: { status: "completed", result: 1 } } });
});
