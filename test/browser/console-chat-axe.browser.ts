import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { defineAgent, defineTool, defineWorkflow, workflowTool, type Config } from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { describe, expect, it, onTestFinished } from "vitest";
import { startServer } from "../harness/server.ts";
import { findSerious } from "./axe.ts";
import { openChat } from "./console-chat-tab.ts";

const refund = defineWorkflow({
  id: "refund",
  input: v.object({ order: v.string() }),
  resumeSchema: v.object({ amount: v.number(), approved: v.boolean() }),
}).andThen({ id: "ask", execute: async ({ suspend }) => suspend("How much?", { order: "o1" }) });
const answer: LanguageModelV4StreamPart[] = [
  { type: "stream-start", warnings: [] },
  { type: "reasoning-start", id: "r" },
  { type: "reasoning-delta", id: "r", delta: "Let me think." },
  { type: "reasoning-end", id: "r" },
  { type: "source", sourceType: "url", id: "s1", url: "https://example.com/a", title: "An example" },
  { type: "file", mediaType: "text/plain", data: { type: "data", data: btoa("notes") } },
  { type: "file", mediaType: "image/gif", data: { type: "data", data: "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs=" } },
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: "Hello" },
  { type: "text-end", id: "t" },
  {
    type: "finish",
    finishReason: { unified: "stop", raw: "stop" },
    usage: {
      inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 1, text: 1, reasoning: 0 },
    },
  },
];
const toConfig = (): Config => ({
  console: true,
  workflows: [refund],
  agents: [
    defineAgent({
      id: "helper",
      name: "Helper",
      description: "Helps",
      instructions: "Be brief.",
      model: scriptedModel([
        answer,
        {
          text: "It waits.",
          toolCalls: [
            { toolName: "refund", input: { order: "o1" } },
            { toolName: "pay", input: {} },
          ],
        },
        new Error("on fire"),
      ]),
      maxRetries: 0,
      tools: {
        refund: workflowTool(refund),
        pay: defineTool({ description: "Pays", inputSchema: v.object({}), needsApproval: true, execute: () => 1 }),
      },
    }),
    defineAgent({ id: "parrot", instructions: "", model: echoModel() }),
  ],
});

describe("axe-core in the view Agents", () => {
  it.each(["light", "dark"] as const)("finds nothing serious, %s", async (colorScheme) => {
    const server = await startServer("dev", { config: toConfig() });
    onTestFinished(() => server.close());
    const tab = await openChat(`${server.url}/console#/agents`, { colorScheme });
    const { page } = tab;
    await page.getByRole("link", { name: "Helper" }).waitFor();
    expect(await findSerious(page)).toEqual([]);
    await tab.begin("helper");
    expect(await findSerious(page)).toEqual([]);
    await tab.say("hello");
    await tab.isReady();
    await tab.say("refund and pay");
    await page.getByLabel("amount").waitFor();
    await page.getByLabel("Reason").waitFor();
    expect(await findSerious(page)).toEqual([]);
    await page.getByRole("button", { name: /^Delete/ }).click();
    await page.getByRole("dialog").waitFor();
    expect(await findSerious(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await tab.say("fail");
    await page.getByRole("alert").waitFor();
    expect(await findSerious(page)).toEqual([]);
    await page.setViewportSize({ width: 360, height: 800 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
    await page.getByRole("link", { name: "Helper" }).click();
    await page.getByText("Be brief.").waitFor();
    await page.getByText(/input tokens/).waitFor();
    expect(await findSerious(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
  });
});
