import { expect, it, onTestFinished } from "vitest";
import { ExecutionWatch, type WatchParts } from "../../../src/agents/turns/execution-watch.ts";
import type { FoundCall } from "../../../src/engine/stored/pending-calls.ts";
import { createGates } from "../../harness/gates.ts";
import { createTestLogger } from "../../harness/server.ts";
import { until } from "../../harness/waiting.ts";

it("continues an answer whose execution ends while it is looked up", async () => {
  const gates = createGates();
  const call = { id: "child:1", type: "execution" } as FoundCall; // only these fields are read
  let hasEnded = false;
  const continued: string[] = [];
  const parts: WatchParts = {
    engine: { changes: async function* () {} },
    conversations: { findCall: async () => call, executionCalls: async () => ({ calls: [], hasMore: false }) },
    logger: createTestLogger([]),
    async readEnd() {
      const end = hasEnded ? { output: "done" } : undefined;
      await gates.pass("read");
      return end;
    },
    continueWith: async ({ id }) => void continued.push(id),
    onDropped: () => {},
  };
  const watch = new ExecutionWatch(parts);
  onTestFinished(() => watch.close());
  watch.check("child:1");
  await gates.reached("read");
  hasEnded = true;
  watch.check("child:1"); // the end is heard of, and the first look has not found it
  gates.open("read");
  await until(() => continued.length > 0, "the turn that continues the answer");
  expect(continued).toEqual(["child:1"]);
});
