import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { validateUIMessages } from "ai";
import { expect, it, onTestFinished } from "vitest";
import { readMessages } from "../../../src/agents/messages/read-messages.ts";
import { inspect } from "../../../src/backends/embedded/file/inspect.ts";
import { Store } from "../../../src/backends/embedded/store/store.ts";
import type { ConversationKey } from "../../../src/engine/contract/conversations.ts";
import { createFolder } from "../../harness/folders.ts";
import { startTestServer, type TestServer } from "../../harness/server.ts";
import { Host } from "../../harness/start-host.ts";
import { eventually } from "../../harness/waiting.ts";
import {
  createFile,
  createFormat4,
  prompts,
  ran,
  toConfig,
  toConversationConfig,
  toSuspendedConfig,
} from "./project.ts";

function read<T>(file: string, sql: string): T[] {
  const database = new DatabaseSync(file, { readOnly: true });
  const rows = database.prepare(sql).all() as T[];
  database.close();
  return rows;
}
const formatOf = (file: string): unknown => read(file, "pragma user_version")[0];
const tablesOf = (file: string): string[] =>
  read<{ sql: string }>(file, "select sql from sqlite_master where sql is not null order by name").map(({ sql }) =>
    sql.replace(/\s+/g, " ").replace(/\( | \)| (?=,)/g, (part) => part.trim()),
  );

/** Everything in the file is there and continues. */
async function expectWhole(server: TestServer): Promise<void> {
  const stateOf = async (workflow: string, id: string): Promise<any> =>
    (await server.get(`/workflows/${workflow}/executions/${id}/state`)).body.data;
  expect(await stateOf("approve", "ended")).toMatchObject({
    status: "completed",
    result: { data: "yes", length: 1_200 },
  });
  expect(await stateOf("approve", "cancelled")).toMatchObject({ cancellation: { reason: "No longer needed" } });
  expect((await stateOf("fails", "failed")).status).toBe("error");
  expect(await stateOf("approve", "suspended")).toMatchObject({
    status: "suspended",
    suspension: { reason: "Approve?", data: { amount: 7 } },
    context: { tenant: "t", userId: "anna" },
  });
  const { body } = await server.post("/workflows/approve/executions/suspended/resume", { resumeData: "go" });
  expect(body.data).toMatchObject({ status: "completed", result: { data: "go", length: 1_200 } });
  await eventually(async () => expect((await stateOf("slow", "running")).status).toBe("completed"));
  expect(await stateOf("slow", "running")).toMatchObject({ result: { data: "once" } });
  const { events } = await server.get("/workflows/approve/executions/ended/stream");
  expect(events.map(({ type }) => type)).toContain("workflow-suspended");
  const { items } = (await server.get("/workflows/approve/executions?status=completed")).body.data;
  expect(items.map(({ executionId }: any) => executionId)).toEqual(["suspended", "ended"]);
  const options = { userId: "anna", conversationId: "c1" };
  expect((await server.post("/agents/talker/text", { input: "Which number?", options })).status).toBe(200);
}

it("brings a file of format 4 to the current format, and everything in it continues", async () => {
  const file = join(createFolder("migrations"), "data.db");
  createFormat4(file);
  expect(await inspect(file)).toMatchObject({
    facts: [expect.any(String), "format 4, is migrated to 13 at the next start"],
    executions: { running: 1, suspended: 1, completed: 1, error: 2 },
  });
  ran.length = 0;
  prompts.length = 0;
  const server = await startTestServer("in process", { config: toConfig(file) });
  expect(formatOf(file)).toEqual({ user_version: 13 });
  await expectWhole(server);
  expect(ran).toEqual(["second"]);
  expect(prompts.join()).toContain("I remember 7.");
  expect(await inspect(file)).toMatchObject({ facts: [expect.any(String)], isInUse: true });
});

it.each([4, 6])("shows suspensions of a file of format %s with their kinds, and resumes them", async (format) => {
  const file = join(createFolder("migrations"), "data.db");
  createFile(file, `suspended-format-${format}`);
  expect(formatOf(file)).toEqual({ user_version: format });
  const server = await startTestServer("in process", { config: toSuspendedConfig(file) });
  const stateOf = async (workflow: string, id: string): Promise<any> =>
    (await server.get(`/workflows/${workflow}/executions/${id}/state`)).body.data;
  const resume = async (workflow: string, id: string, body: object): Promise<any> =>
    (await server.post(`/workflows/${workflow}/executions/${id}/resume`, body)).body.data;
  const kindsOf = async (workflow: string): Promise<unknown[]> => {
    const { body } = await server.get(`/workflows/${workflow}/executions?status=suspended`);
    return body.data.items.map(({ executionId, suspension }: any) => [executionId, suspension.kind]);
  };

  const one = { kind: "person", stepId: "one", stepIndex: 0, reason: "one?", data: { id: "one" } };
  const two = { ...one, stepId: "two", reason: "two?", data: { id: "two" } };
  expect((await stateOf("asks", "step")).suspension).toMatchObject({ kind: "person", stepId: "ask", reason: "ask?" });
  expect((await stateOf("both", "two")).suspension).toMatchObject({ ...one, pending: [one, two] });
  expect((await stateOf("works", "request")).suspension).toMatchObject({
    kind: "request",
    stepId: "first",
    reason: "Stop",
  });
  expect(await kindsOf("asks")).toEqual([["step", "person"]]);
  expect(await kindsOf("both")).toEqual([["two", "person"]]);
  expect(await kindsOf("works")).toEqual([["request", "request"]]);

  expect(await resume("asks", "step", { resumeData: 1 })).toMatchObject({ status: "completed", result: { data: 1 } });
  const second = await resume("both", "two", { resumeData: 2, options: { stepId: "two" } });
  expect(second).toMatchObject({ status: "suspended", suspension: { kind: "person", stepId: "one" } });
  expect(await resume("both", "two", { resumeData: 1 })).toMatchObject({ status: "completed", result: [1, 2] });
  // The result of the step that was in flight is there already.
  expect(await resume("works", "request", {})).toMatchObject({ status: "completed", result: { data: "first" } });
});

const readAll = (server: TestServer, key: ConversationKey, limit = 100) =>
  readMessages(server.conversations, key, { limit });

it("shows the messages of a file of format 4 without times, before those of later turns", async () => {
  const file = join(createFolder("migrations"), "data.db");
  createFormat4(file);
  const server = await startTestServer("in process", { config: toConfig(file) });
  const options = { userId: "anna", conversationId: "c1" };
  await server.post("/agents/talker/text", { input: "Which number?", options });
  const messages = await readAll(server, { agentId: "talker", ...options });
  await validateUIMessages({ messages });
  const shown = messages.map(({ role, parts, metadata }) => [role, textOf(parts), metadata!.createdAt]);
  expect(shown).toEqual([
    ["user", "Remember 7", null],
    ["assistant", "I remember 7.", null],
    ["user", "Which number?", expect.any(String)],
    ["assistant", "Still 7.", expect.any(String)],
  ]);
});

it("shows the messages of a file of format 9 whole, and continues one that waits for a tool", async () => {
  const file = join(createFolder("migrations"), "data.db");
  createFile(file, "conversation-format-9");
  const { config, model } = toConversationConfig(file);
  const server = await startTestServer("in process", { config });
  const key = { agentId: "talker", conversationId: "c9" };
  const messages = await readAll(server, key);
  await validateUIMessages({ messages });
  const png = "data:image/png;base64,iVBORw0KGgo=";
  const step = { type: "step-start" };
  const said = (text: string) => ({ type: "text", text, state: "done" });
  const rome = { state: "output-available", input: { city: "Rome" }, output: { city: "Rome", sky: "clear" } };
  const denied = { state: "output-denied", approval: { approved: false, reason: "too much" } };
  const open = [step, said("One moment."), { type: "tool-locate", state: "input-available", input: {} }];
  expect(messages).toMatchObject([
    { id: "u1", role: "user", parts: [{ text: "Weather?" }, { type: "file", mediaType: "image/png", url: png }] },
    {
      role: "assistant",
      parts: [
        step,
        { type: "reasoning", text: "Which city?" },
        { type: "tool-weather", ...rome },
        { type: "tool-weather", state: "output-error", errorText: "Error: no data" },
        step,
        said("Clear over Rome."),
      ],
    },
    { id: "u2", parts: [{ text: "Pay 5" }] },
    { parts: [step, { type: "tool-pay", ...denied }, step, said("Not paid.")] },
    { id: "message-10", role: "user", parts: [{ type: "text", text: "Where am I?" }] },
    { role: "assistant", parts: open },
  ]);
  expect(messages.map(({ metadata }) => metadata)).toEqual(messages.map(() => ({ createdAt: null })));
  // A page has whole messages, of however many rows.
  expect(await readAll(server, key, 3)).toEqual(messages.slice(3));
  expect(await readMessages(server.conversations, key, { before: "u2", limit: 1 })).toEqual(messages.slice(1, 2));

  const { id, parts } = messages.at(-1)!;
  const part = { ...parts.at(-1)!, state: "output-available", output: "Rome" };
  const sent = { id: "c9", messages: [{ id, role: "assistant", parts: [part] }] };
  expect((await server.post("/agents/talker/chat", sent)).events[0]).toMatchObject({ type: "start", messageId: id });
  const located = { type: "tool-locate", state: "output-available", output: "Rome" };
  const after = await readAll(server, key);
  expect(after.slice(0, -1)).toEqual(messages.slice(0, -1));
  expect(after.at(-1)).toMatchObject({
    id,
    metadata: { createdAt: null, usage: { inputTokens: 1 } },
    parts: [...open.slice(0, 2), located, step, said("In Rome.")],
  });
  await server.post("/agents/talker/text", { input: "Thanks", options: { conversationId: "c9" } });
  const roles = model.calls[1]!.prompt.map(({ role }) => role);
  expect(roles.slice(-5)).toEqual(["user", "assistant", "tool", "assistant", "user"]);
});

it("lists the conversations of files of format 4 and 9, with their titles and messages", async () => {
  const folder = createFolder("migrations");
  const old = join(folder, "4.db");
  createFormat4(old);
  const first = await startTestServer("in process", { config: toConfig(old) });
  const list = async (server: TestServer, query = ""): Promise<any[]> =>
    (await server.get(`/agents/talker/conversations${query}`)).body.data.items;
  const anna = await list(first, "?userId=anna");
  expect(anna).toEqual([
    {
      id: "c1",
      title: "Remember 7",
      createdAt: null,
      updatedAt: expect.any(String),
      messageCount: 2,
      isOwn: true,
      running: false,
    },
  ]);
  expect(Date.now() - Date.parse(anna[0].updatedAt)).toBeLessThan(86_400_000); // the time of the migration
  expect(await list(first)).toEqual([]);
  const shown = (await first.get("/agents/talker/conversations/c1?userId=anna")).body.data;
  await validateUIMessages({ messages: shown.messages });
  expect(shown.messages.map(({ parts }: any) => textOf(parts))).toEqual(["Remember 7", "I remember 7."]);
  await first.post("/agents/talker/text", { input: "More", options: { userId: "anna", conversationId: "c1" } });
  expect(await list(first, "?userId=anna")).toMatchObject([{ createdAt: null, messageCount: 4 }]);

  const file = join(folder, "9.db");
  createFile(file, "conversation-format-9");
  const second = await startTestServer("in process", { config: toConversationConfig(file).config });
  expect(await list(second)).toMatchObject([{ id: "c9", title: "Weather?", createdAt: null, messageCount: 6 }]);
  const { messages } = (await second.get("/agents/talker/conversations/c9")).body.data;
  await validateUIMessages({ messages });
  expect(messages).toHaveLength(6);
  // The page before a message that has no id of its own.
  const before = (await second.get("/agents/talker/conversations/c9?before=message-10")).body.data;
  expect(before).toMatchObject({ messages: messages.slice(0, 4), hasMore: false });
  const gone = await second.request("/agents/talker/conversations/c9", { method: "DELETE" });
  expect(gone.body.data).toEqual({ deleted: true });
  expect(await list(second)).toEqual([]);
});

const textOf = (parts: readonly { type: string }[]): string =>
  parts.flatMap((part) => ("text" in part ? [part.text] : [])).join("");

it("a migrated file has the same tables as a new one", () => {
  const folder = createFolder("migrations");
  const [old, fresh] = [join(folder, "old.db"), join(folder, "new.db")] as const;
  createFormat4(old);
  for (const file of [old, fresh]) new Store(file, "normal").close();
  expect(tablesOf(old)).toEqual(tablesOf(fresh));
  expect(tablesOf(old).join()).toContain("crashes integer");
});

it("refuses a file that is older than format 4, and leaves it as it is", () => {
  const file = join(createFolder("migrations"), "data.db");
  createFormat4(file);
  const database = new DatabaseSync(file);
  database.exec("pragma user_version = 3");
  database.close();
  expect(() => new Store(file, "normal")).toThrow(
    `${file} has format 3, but this version of agentserve reads format 13`,
  );
  expect(formatOf(file)).toEqual({ user_version: 3 });
});

it("loses nothing when the process is killed in the middle of a migration", async () => {
  const file = join(createFolder("migrations"), "data.db");
  createFormat4(file);
  const tables = tablesOf(file);
  const module = join(import.meta.dirname, "killed-migration-app.ts");
  for (const at of [2, 4, 6, 7, 8, 15]) {
    const host = new Host(module);
    onTestFinished(() => void host.child.kill("SIGKILL"));
    await expect(host.start({ file, at }), `killed before statement ${at}`).rejects.toThrow("ended with SIGKILL");
    expect(formatOf(file)).toEqual({ user_version: 4 });
    expect(tablesOf(file)).toEqual(tables);
  }
  const server = await startTestServer("in process", { config: toConfig(file) });
  await expectWhole(server);
  expect(formatOf(file)).toEqual({ user_version: 13 });
});
