import { expect, it } from "vitest";
import { serve } from "./serve.ts";

const long = "x".repeat(1_000_000);

it("shows at most the start of a value in an error, so that a request of 1 MB does not get a response of 1 MB", async () => {
  const server = await serve();
  const message = { role: long, parts: [] };
  const sent: [path: string, body: unknown][] = [
    ["/workflows/refund/execute", { input: long }],
    ["/workflows/refund/execute", { input: { orderId: "o", amount: long } }],
    ["/workflows/refund/execute", { input: { orderId: "o", amount: 1, currency: long } }],
    ["/workflows/refund/stream", { input: { orderId: long, amount: 1 } }],
    ["/workflows/refund/execute", { input: { orderId: "o", amount: 1 }, options: long }],
    ["/workflows/refund/execute", { input: { orderId: "o", amount: 1 }, options: { executionId: long } }],
    ["/workflows/refund/executions/a/resume", { resumeData: { approved: long } }],
    ["/workflows/refund/executions/a/resume", { options: { stepId: long } }],
    ["/agents/support/text", { input: { [long]: 1 } }],
    ["/agents/support/text", { input: "x", options: { temperature: long } }],
    ["/agents/support/chat", { input: [message] }],
    ["/agents/support/object", { input: "x", schema: { type: long } }],
    ["/agents/support/object", { input: "x", schema: { $ref: long.slice(0, 60_000) } }],
  ];
  const suspended = { input: { orderId: "o", amount: 1 }, options: { executionId: "a" } };
  expect((await server.post("/workflows/refund/execute", suspended)).status).toBe(200);
  const lengths = await Promise.all(
    sent.map(async ([path, body]) => {
      const response = await server.post(path, body);
      const text = await response.text();
      expect([400, 404]).toContain(response.status);
      return { path, sent: JSON.stringify(body).slice(0, 80), length: text.length };
    }),
  );
  expect(lengths.filter(({ length }) => length > 1_000)).toEqual([]);
});
