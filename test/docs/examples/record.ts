import { expect } from "vitest";
import { defineWorkflow } from "agentserve";
import type { Block } from "./blocks.ts";
import { serveFor } from "./observed.ts";

/** `json`: a record of the log, compared with the one that such a step leaves. */
export async function runRecord(block: Block): Promise<void> {
  const shown = JSON.parse(block.text) as Record<string, any>;
  const { workflowId, stepId, executionId, message, data } = shown;
  const order = defineWorkflow({ id: workflowId }).andThen({
    id: stepId,
    execute: ({ logger }) => logger[shown["level"] as "info"](message, data),
  });
  const { server, headers } = await serveFor([order], shown["userId"]);
  await server.post(`/workflows/${workflowId}/execute`, { input: {}, options: { executionId } }, { headers });
  const { body } = await server.get(`/api/logs?executionId=${executionId}`, { headers });
  const [record] = body.data;
  expect(record).toEqual({ ...shown, seq: expect.any(Number), timestamp: expect.stringMatching(isoTime) });
  expect(shown["timestamp"]).toMatch(isoTime);
  expect(Object.keys(shown)).toEqual(Object.keys(record));
}
const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
