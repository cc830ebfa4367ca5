// Each of these changes makes a test of this file fail: a stop that is answered before it is durable; a stop, or the
// result of a tool that has ended by it, that is not recorded; a repetition that makes calls after a stop.
import { join } from "node:path";
import { expect, it } from "vitest";
import { openLives } from "../agents/lives.ts";
import type { StopLine } from "./slow-tool-app.ts";

it("a stop that was answered holds after kill -9: nothing is called again", { timeout: 600_000 }, async () => {
  const { lives, log } = openLives<StopLine>("stop", join(import.meta.dirname, "slow-tool-app.ts"));
  const options = { conversationId: "c" };

  await lives.start();
  const reading = lives.ask("/agents/worker/stream", { input: "work", options });
  await lives.until("the tool to run", () => log().some(({ what }) => what === "slow"));
  const reply = await lives.ask("/agents/worker/conversations/c/stop", {});
  await lives.kill(); // the tool has 100 ms to end before the answer is stored
  expect(reply).toMatchObject({ status: 200, body: { data: { stopped: true } } });
  await reading;

  await lives.start();
  expect((await lives.ask("/agents/worker/text", { input: "next", options }))?.status).toBe(200);
  const later = log().filter(({ life }) => life === 2);
  expect(later.map(({ what }) => what)).toEqual(["next"]);
  // The calls that were recorded are in the conversation, each with a result.
  const shown = JSON.parse(later[0]!.shown!) as { role: string; content: any }[];
  expect(shown.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant", "tool", "user"]);
  const parts = shown.flatMap(({ content }) => content as any[]);
  expect(parts[1]).toMatchObject({ type: "text", text: "First. " });
  const results = parts.filter(({ type }) => type === "tool-result");
  expect(results.map(({ toolName, output }) => [toolName, output])).toEqual([
    ["quick", { type: "text", value: "done" }],
    ["tidy", { type: "text", value: "tidied" }], // it has ended before the kill
    ["slow", { type: "error-text", value: "Stopped" }],
  ]);
});

it("a stop during an approved tool holds after kill -9: the model is not asked", { timeout: 600_000 }, async () => {
  const { lives, log } = openLives<StopLine>("approved", join(import.meta.dirname, "slow-tool-app.ts"));
  const options = { conversationId: "c" };
  await lives.start();
  const asked = await lives.ask("/agents/worker/text", { input: "risk", options });
  const deciding = lives.ask(`/approvals/${asked!.body.data.approvals[0].approvalId}`, { approved: true });
  await lives.until("the tool to run", () => log().some(({ what }) => what === "slow"));
  const reply = await lives.ask("/agents/worker/conversations/c/stop", {});
  await lives.kill();
  expect(reply).toMatchObject({ status: 200, body: { data: { stopped: true } } });
  await deciding;

  await lives.start();
  expect((await lives.ask("/agents/worker/text", { input: "next", options }))?.status).toBe(200);
  expect(log().flatMap(({ what, life }) => (life === 2 ? [what] : []))).toEqual(["next"]);
});
