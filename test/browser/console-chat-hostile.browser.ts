import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { defineAgent, defineTool, type Config } from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { finishPart } from "../harness/finish-part.ts";
import { startTestServer } from "../harness/server.ts";
import { openChat, type ChatTab } from "./console-chat-tab.ts";
import { expectNoProblems } from "./console-page.ts";

const hostile = [
  "<img src=x onerror=alert(1)>",
  "<script>alert(2)</script>",
  '"><svg onload=alert(3)>',
  "javascript:alert(4)",
  "<iframe srcdoc='<script>alert(5)</script>'></iframe>",
  "{{constructor.constructor('alert(6)')()}}",
  "<a href=javascript:alert(7)>click</a>",
  "</textarea><style>body{display:none}</style>",
  "\u202Efdp.exe",
  "\u001B]0;title\u0007",
];
const all = hostile.join("\n");
/** The texts as the page shows them: characters that cannot be seen are written out. */
const visible = hostile.map((text) =>
  text.replaceAll("\u202E", "\\u202E").replaceAll("\u001B", "\\u001B").replaceAll("\u0007", "\\u0007"),
);

const answer: LanguageModelV4StreamPart[] = [
  { type: "stream-start", warnings: [] },
  { type: "reasoning-start", id: "r" },
  { type: "reasoning-delta", id: "r", delta: all },
  { type: "reasoning-end", id: "r" },
  { type: "source", sourceType: "url", id: "s1", url: "javascript:alert(8)", title: hostile[0]! },
  { type: "source", sourceType: "url", id: "s2", url: "https://example.com/a", title: hostile[2]! },
  { type: "file", mediaType: "text/html", data: { type: "data", data: btoa(hostile[1]!) } },
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: all },
  { type: "text-end", id: "t" },
  { type: "tool-call", toolCallId: "c1", toolName: "echo", input: JSON.stringify({ text: all }) },
  { type: "tool-call", toolCallId: "c2", toolName: "fail", input: JSON.stringify({ text: all }) },
  { type: "tool-call", toolCallId: "c3", toolName: hostile[0]!, input: JSON.stringify({ [hostile[2]!]: all }) },
  finishPart("tool-calls", hostile[0]!),
];
const inputSchema = v.object({ text: v.string() });
const tools = {
  echo: defineTool({ description: hostile[0]!, inputSchema, execute: ({ text }) => ({ [hostile[1]!]: text }) }),
  fail: defineTool({
    description: all,
    inputSchema,
    execute: ({ text }) => {
      throw new Error(text);
    },
  }),
};
const config: Config = {
  console: true,
  agents: [
    defineAgent({
      id: "bad",
      name: hostile[0]!,
      description: all,
      instructions: all,
      maxRetries: 0,
      model: scriptedModel([answer, all, new Error(all)]),
      tools,
    }),
  ],
};

describe("hostile texts in the view Agents", () => {
  it("shows hostile texts in the view Agents as texts, and runs nothing in them", async () => {
    const server = await startTestServer("dev", { config });
    const tab = await openChat(`${server.url}/console#/agents`);
    await tab.page.getByText(visible[1]!).first().waitFor();
    await tab.begin("bad");
    await tab.page
      .locator("form.sticky input[type=file]")
      .setInputFiles({ name: '"><img src=x onerror=alert(9)>.png', mimeType: "image/png", buffer: Buffer.from(all) });
    await tab.page.locator("form.sticky input[type=file]").setInputFiles({
      name: "<script>alert(10)<script>.html",
      mimeType: "text/html",
      buffer: Buffer.from(hostile[1]!),
    });
    await tab.say(all);
    await tab.isReady();
    await expectHarmless(tab);
    await tab.page.reload(); // the same from the store
    await tab.isReady();
    await expectHarmless(tab);

    await tab.say("again");
    await tab.page.getByRole("alert").getByText(visible[1]!).waitFor(); // the message of the provider
    await expectHarmless(tab);
    await tab.page.getByRole("button", { name: /^Rename/ }).click();
    await tab.page.getByLabel("Title").fill(hostile[0]!);
    await tab.page.keyboard.press("Enter");
    await tab.page.getByRole("heading", { name: hostile[0]! }).waitFor();
    await expectHarmless(tab);
    await tab.page.goto(`${server.url}/console#/agents/bad`);
    await tab.page.getByRole("link", { name: hostile[0]! }).first().waitFor();
    await expectHarmless(tab);
    await tab.page.goto(`${server.url}/console#/agents/bad/${encodeURIComponent(`a/${all}`)}`);
    await tab.page.getByRole("alert").getByText("not found").waitFor();
    await expectHarmless(tab);
    const { faults, refusals } = tab;
    expectNoProblems({ faults, refusals: refusals.filter((text) => !/status of (502|404)/.test(text)) });
  });
});

/** Opens everything that opens, then looks for elements that only markup in a text could have made. */
async function expectHarmless({ page }: ChatTab): Promise<void> {
  for (let round = 0; round < 4; round++) {
    await page.evaluate(async () => {
      for (const details of document.querySelectorAll<HTMLDetailsElement>("main details")) details.open = true;
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    });
  }
  const found = await page.evaluate(() => ({
    elements: Array.from(
      document.querySelectorAll("body script, svg, iframe, style, [onerror], [onload], object, embed"),
      (one) => one.outerHTML,
    ),
    pictures: Array.from(document.images, ({ src }) => src.slice(0, 11)),
    links: Array.from(document.links, (link) => link.getAttribute("href") ?? ""),
    hidden: ["\u202E", "\u001B", "\u0007"].filter((one) => document.body.innerText.includes(one)).length,
  }));
  expect(found.elements).toEqual([]);
  expect(found.pictures.every((src) => src === "data:image/")).toBe(true);
  expect(found.links.filter((href) => !/^(#\/|#main$|https:\/\/example\.com\/a$|blob:)/.test(href))).toEqual([]);
  expect(found.hidden).toBe(0);
}
