import type { LanguageModelV4 } from "@ai-sdk/provider";
import { defineAgent } from "agentserve";
import { echoModel } from "agentserve/models";
import { tool, type UIMessage, type UIMessageChunk } from "ai";
import type { BrowserContext } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { createGates, type Gates } from "../harness/gates.ts";
import { bySize } from "../harness/size.ts";
import { bundleChatPage, serveChatPage } from "./bundle-chat-page.ts";
import { createChatTab, toComparable, type ChatTab } from "./chat-tab.ts";
import { openProfile } from "./profile.ts";

const reloads = bySize(5, 20);
/** Between two reloads the page must show so many more words. */
const wordsEach = 4;
const words = Array.from({ length: (reloads + 1) * wordsEach }, (_, index) => `w${index}`).join(" ");

/** The echo. Its texts end when the gate is open, so that a slow machine has time for every reload. */
function createModel(gates: Gates): LanguageModelV4 {
  const model = echoModel({ wordMs: 100 });
  return {
    ...model,
    async doStream(options) {
      const { stream, ...rest } = await model.doStream(options);
      const held = new TransformStream({
        async transform(part, controller) {
          if (part.type === "text-end") await gates.pass("end");
          controller.enqueue(part);
        },
      });
      return { ...rest, stream: stream.pipeThrough(held) };
    },
  };
}

const locate = tool({ description: "Where the client is", inputSchema: z.object({}) });
const pay = tool({ description: "Pays", inputSchema: z.object({}), needsApproval: true, execute: () => words });

describe.each(["5", "6", "7"])("useChat({ resume: true }) of ai %s", (version) => {
  const hasApprovals = version !== "5"; // ai 5 has none
  beforeAll(async () => void (await bundleChatPage(version)));

  interface Stage {
    readonly gates: Gates;
    /** A profile of the browser: its tabs share the messages that pages have stored. */
    createProfile(): Promise<BrowserContext>;
    /** Opens the page in a new tab. */
    visit(profile: BrowserContext): Promise<ChatTab>;
  }
  async function createStage(): Promise<Stage> {
    const gates = createGates();
    const model = createModel(gates);
    const server = await serveChatPage(version, {
      agents: [defineAgent({ id: "helper", instructions: "", model, tools: { locate, pay } })],
    });
    const ids = new Map<BrowserContext, string>();
    return {
      gates,
      async createProfile() {
        const profile = await openProfile();
        ids.set(profile, `c${ids.size}`);
        return profile;
      },
      async visit(profile) {
        const page = await profile.newPage();
        await page.goto(`${server.url}/page?agent=helper&id=${ids.get(profile)}&version=${version}`);
        const tab = createChatTab(page);
        await tab.isLoaded();
        return tab;
      },
    };
  }

  /** Reloads the page in the middle of an answer, again and again. */
  async function reloadOften(tab: ChatTab): Promise<void> {
    for (let count = 1; count <= reloads; count++) {
      await tab.shows("streaming", `w${count * wordsEach - 1}`);
      await tab.reload();
    }
  }
  /** Does the same in a page that is reloaded and in one that is not. Returns what both show at the end. */
  async function runBoth(begin: (tab: ChatTab, isReloaded: boolean) => Promise<void>) {
    const { gates, createProfile, visit } = await createStage();
    const [reloaded, undisturbed] = [await visit(await createProfile()), await visit(await createProfile())];
    await Promise.all([begin(reloaded, true), begin(undisturbed, false)]);
    await reloadOften(reloaded);
    gates.open("end");
    const ends = [reloaded, undisturbed].map(async (tab) => {
      await tab.shows("ready", words.slice(-10));
      return tab.messages();
    });
    const [got, expected] = (await Promise.all(ends)) as [UIMessage[], UIMessage[]];
    expect(got).toHaveLength(2);
    // The same is shown after one more reload, from what the page has stored.
    await reloaded.reload();
    await reloaded.shows("ready", words.slice(-10));
    expect(await reloaded.messages()).toEqual(got);
    return { got: toComparable(got), expected: toComparable(expected) };
  }

  it("shows the same answer as an undisturbed page, after reloads in the middle of it", async () => {
    const { got, expected } = await runBoth((tab) => tab.send(words));
    expect(got).toEqual(expected);
    expect(got[1]!.parts).toEqual([{ type: "step-start" }, { type: "text", text: words, state: "done" }]);
  });

  it("shows the same after reloads of an answer that continues with the result of a client's tool", async () => {
    const { got, expected } = await runBoth(async (tab, isReloaded) => {
      await tab.send("locate me");
      await tab.shows("ready", "input-available");
      if (isReloaded) await tab.reload();
      await tab.shows("ready", "input-available");
      await tab.answerTool("locate", words);
    });
    expect(got).toEqual(expected);
    expect(got[1]!.parts.map(({ type }) => type)).toEqual(["step-start", "tool-locate", "step-start", "text"]);
  });

  it.each(hasApprovals ? [version] : [])(
    "shows the same after reloads of an answer that continues with an approval",
    async () => {
      const { got, expected } = await runBoth(async (tab, isReloaded) => {
        await tab.send("pay now");
        await tab.shows("ready", "approval-requested");
        if (isReloaded) await tab.reload();
        await tab.shows("ready", "approval-requested");
        await tab.decide(true);
      });
      const [, part] = expected[1]!.parts as { approval?: { approved?: boolean } }[];
      expect(part!.approval).toEqual({ id: "-", approved: true });
      // No chunk tells ai 6 that a call was approved.
      if (version === "6") delete part!.approval!.approved;
      expect(got).toEqual(expected);
      expect(got[1]!.parts.map(({ type }) => type)).toEqual(["step-start", "tool-pay", "step-start", "text"]);
    },
  );

  it.each(hasApprovals ? [] : [version])(
    "shows an error in ai 5, which has no approvals, for a tool that needs one",
    async () => {
      const { createProfile, visit } = await createStage();
      const tab = await visit(await createProfile());
      await tab.send("pay now");
      await tab.shows("error", "input-available");
    },
  );

  it("shows two tabs the same parts in the same order, and all of them to a third that joins late", async () => {
    const { gates, createProfile, visit } = await createStage();
    const profile = await createProfile();
    const first = await visit(profile);
    await first.send(words);
    await first.shows("streaming", "w0");
    const second = await visit(profile);
    await second.shows("streaming", "w8");
    const third = await visit(profile);
    await third.shows("streaming", words.slice(-10));
    gates.open("end");
    const tabs = [first, second, third];
    for (const tab of tabs) await tab.shows("ready", words.slice(-10));
    const [shown, ...others] = await Promise.all(tabs.map((tab) => tab.messages()));
    expect(others).toEqual([shown, shown]);
    const [heard, ...otherwise] = await Promise.all(tabs.map(async (tab) => joinDeltas(await tab.heard())));
    const types = ["start", "start-step", "text-start", "text-delta", "text-end", "finish-step", "finish"];
    expect(heard!.map(({ type }) => type)).toEqual(types);
    expect(otherwise).toEqual([heard, heard]);
  });
});

/** A reader that joins late gets many deltas as one. */
function joinDeltas(chunks: readonly UIMessageChunk[]): UIMessageChunk[] {
  const joined: UIMessageChunk[] = [];
  for (const chunk of chunks) {
    const last = joined.at(-1);
    if (chunk.type !== "text-delta" || last?.type !== "text-delta") joined.push(chunk);
    else joined.splice(-1, 1, { ...last, delta: last.delta + chunk.delta });
  }
  return joined;
}
