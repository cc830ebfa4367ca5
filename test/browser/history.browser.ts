// Each of these changes makes a test of this file fail: errors of tools that are not stored; an approval that is shown without its
// decision; an error in a row of format 4 that is shown as a result.
import { join } from "node:path";
import { defineAgent, ServeError, type Config } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import { tool, type UIMessage } from "ai";
import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { createFolder } from "../harness/folders.ts";
import { createFormat4Conversation, toConversationConfig } from "../faults/migrations/project.ts";
import { bundleChatPage, serveChatPage } from "./bundle-chat-page.ts";
import { createChatTab, toComparable, type ChatTab } from "./chat-tab.ts";
import { openProfile } from "./profile.ts";

const png = "data:image/png;base64,iVBORw0KGgo=";
const photo = { type: "file", mediaType: "image/png", filename: "sky.png", url: png } as const;

const tools = {
  weather: tool({ inputSchema: z.object({ city: z.string() }), execute: ({ city }) => ({ city, sky: "clear" }) }),
  breaks: tool({
    inputSchema: z.object({}),
    execute: () => Promise.reject<string>(new ServeError(503, "out of order")),
  }),
  locate: tool({ description: "Where the client is", inputSchema: z.object({}) }),
  pay: tool({ inputSchema: z.object({ amount: z.number() }), needsApproval: true, execute: () => "paid" }),
};
const call = (toolName: keyof typeof tools, input: object): ScriptedStep => ({ toolCalls: [{ toolName, input }] });
const rich: readonly ScriptedStep[] = [
  {
    reasoning: "Which city is that?",
    text: "I look.",
    toolCalls: [
      { toolName: "weather", input: { city: "Rome" } },
      { toolName: "breaks", input: {} },
    ],
  },
  "Clear over Rome.",
];

/** A page that has its messages from `GET /agents/:id/conversations/:conversationId`. */
describe.each(["5", "6", "7"])("useChat of ai %s with a stored conversation", (version) => {
  const hasApprovals = version !== "5"; // ai 5 has none
  beforeAll(async () => void (await bundleChatPage(version)));

  interface Visit {
    readonly tab: ChatTab;
    /** The parts of the messages that the page shows. */
    parts(): Promise<Part[][]>;
    /** Reloads the page. What it shows then is what it has shown before, or the parts that are given. */
    reload(expected?: Part[][]): Promise<void>;
    /** Sends the approval of another client. */
    decideElsewhere(approved: boolean): Promise<void>;
  }
  async function visit(config: Config, agentId: string, id: string): Promise<Visit> {
    const server = await serveChatPage(version, config);
    const page = await (await openProfile()).newPage();
    const problems: string[] = [];
    page.on("pageerror", ({ message }) => problems.push(message));
    await page.goto(`${server.url}/page?agent=${agentId}&id=${id}&version=${version}&history=server`);
    const tab = createChatTab(page);
    await tab.isLoaded();
    const parts = async (): Promise<Part[][]> => toParts(await tab.messages());
    return {
      tab,
      parts,
      async reload(expected) {
        const shown = expected ?? (await parts());
        await tab.reload();
        expect(await parts()).toEqual(shown);
        expect(problems).toEqual([]);
      },
      async decideElsewhere(approved) {
        const { messages } = (await server.get(`/agents/${agentId}/conversations/${id}`)).body.data;
        const message = messages.at(-1);
        const part = message.parts.at(-1);
        const decided = { ...part, state: "approval-responded", approval: { ...part.approval, approved } };
        await server.post(`/agents/${agentId}/chat`, { id, messages: [{ ...message, parts: [decided] }] });
      },
    };
  }
  const open = (...steps: ScriptedStep[]): Promise<Visit> => {
    const model = scriptedModel(steps);
    return visit({ agents: [defineAgent({ id: "helper", instructions: "", model, tools })] }, "helper", "c1");
  };
  /** Sends a next message from the page, which is answered and shown after one more reload. */
  async function sendNext({ tab, reload, parts }: Visit): Promise<void> {
    const before = await parts();
    await tab.send("Thanks");
    await tab.shows("ready", "Bye");
    const added = [[{ type: "text", text: "Thanks" }], [step, said("Bye.")]];
    expect(await parts()).toEqual([...before, ...added]);
    await reload();
  }

  it("shows text, reasoning, a file, a tool's result and a tool's error as before the reload", async () => {
    const page = await open(...rich, "Bye.");
    await page.tab.send("Weather?", [photo]);
    await page.tab.shows("ready", "Clear over Rome");
    await page.reload();
    const [question, answer] = await page.parts();
    expect(question).toEqual(expect.arrayContaining([photo, { type: "text", text: "Weather?" }]));
    expect(answer).toMatchObject([
      step,
      { type: "reasoning", text: "Which city is that?" },
      said("I look."),
      { type: "tool-weather", state: "output-available", output: { city: "Rome", sky: "clear" } },
      { type: "tool-breaks", state: "output-error", errorText: "out of order" },
      step,
      said("Clear over Rome."),
    ]);
    await sendNext(page);
  });

  it("shows the open call of a client's tool, which the reloaded page answers", async () => {
    const page = await open(call("locate", {}), "In Rome.", "Bye.");
    await page.tab.send("Where am I?");
    await page.tab.shows("ready", "input-available");
    await page.reload();
    await page.tab.answerTool("locate", "Rome");
    await page.tab.shows("ready", "In Rome");
    await page.reload();
    expect((await page.parts())[1]).toMatchObject([step, { output: "Rome" }, step, said("In Rome.")]);
    await sendNext(page);
  });

  it.each(hasApprovals ? [true, false] : [])(
    "shows a requested approval, and its answer after it: approved %s",
    async (approved) => {
      const page = await open(call("pay", { amount: 5 }), "Done.", "Bye.");
      await page.tab.send("Pay 5");
      await page.tab.shows("ready", "approval-requested");
      await page.reload();
      await page.tab.decide(approved);
      await page.tab.shows("ready", "Done");
      await page.reload();
      const decided = approved
        ? { state: "output-available", output: "paid", approval: { approved } }
        : { state: "output-denied", approval: { approved } };
      expect((await page.parts())[1]).toMatchObject([step, { type: "tool-pay", ...decided }, step, said("Done.")]);
      await sendNext(page);
    },
  );

  it.each(hasApprovals ? [] : [true, false])(
    "shows a waiting call in ai 5, which has no approvals, and its answer of another client: approved %s",
    async (approved) => {
      const page = await open(call("pay", { amount: 5 }), "Done.", "Bye.");
      await page.tab.send("Pay 5");
      await page.tab.shows("error", "input-available");
      const [question] = await page.parts();
      const pay = { type: "tool-pay", input: { amount: 5 }, toolCallId: "-" };
      await page.reload([question!, [step, { ...pay, state: "approval-requested", approval: { id: "-" } }]]);
      await page.decideElsewhere(approved);
      const decided = approved ? { state: "output-available", output: "paid" } : { state: "output-denied" };
      const part = { ...pay, ...decided, approval: { id: "-", approved } };
      await page.reload([question!, [step, part, step, said("Done.")]]);
      await sendNext(page);
    },
  );

  it("shows a conversation of a file of format 4, and continues it", async () => {
    const folder = createFolder("history");
    const file = join(folder, "data.db");
    createFormat4Conversation(file);
    const page = await visit(toConversationConfig(file).config, "talker", "c9");
    const shown = await page.parts();
    expect(shown).toMatchObject([
      [{ text: "Weather?" }, { type: "file", mediaType: "image/png", url: png }],
      [
        step,
        { type: "reasoning", text: "Which city?" },
        { type: "tool-weather", state: "output-available", output: { city: "Rome", sky: "clear" } },
        { type: "tool-weather", state: "output-error", errorText: "Error: no data" },
        step,
        said("Clear over Rome."),
      ],
      [{ text: "Pay 5" }],
      [step, { type: "tool-pay", state: "output-denied", approval: { approved: false } }, step, said("Not paid.")],
      [{ text: "Where am I?" }],
      [step, said("One moment."), { type: "tool-locate", state: "input-available" }],
    ]);
    await page.tab.answerTool("locate", "Rome");
    await page.tab.shows("ready", "In Rome");
    await page.reload();
    const after = await page.parts();
    expect(after.slice(0, -1)).toEqual(shown.slice(0, -1));
    expect(after.at(-1)!.slice(2)).toMatchObject([{ output: "Rome" }, step, said("In Rome.")]);
    await sendNext(page);
  });
});

type Part = Record<string, unknown>;
const step = { type: "step-start" };
const said = (text: string) => ({ type: "text", text, state: "done" });

/** The parts of messages, without ids and without fields that are undefined. */
const toParts = (messages: readonly UIMessage[]): Part[][] =>
  toComparable(messages).map(({ parts }) => parts as unknown as Part[]);
