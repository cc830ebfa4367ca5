// Each of these changes makes a test of this file fail: `secure_delete` that is off; messages, records or turns that stay.
import { existsSync, readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { defineTool } from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { onFile } from "../../harness/backends.ts";
import { createGates } from "../../harness/gates.ts";
import { patienceMs } from "../../harness/patience.ts";
import { startTestServer } from "../../harness/server.ts";
import { newFile } from "../../harness/folders.ts";
import { openReader, toAgent } from "../turns/turn-server.ts";
import { toApi } from "./api.ts";

/** A word that is nowhere else, also if a page has only a part of a text. */
const secret = "Quetzalcoatl";
/** Texts of every size: in a page, of several pages, and beside others in a page that is split. */
const sizes = [10, 300, 2_000, 4_000, 5_000, 40_000, 3, 900];
const toText = (turn: number): string => `${turn} ${`${secret} `.repeat(sizes[turn % sizes.length]! / 10 + 1)}`;

/** The number of times that the file and its log have the secret, after a checkpoint. */
function countSecrets(file: string): { file: number; log: number } {
  const db = new DatabaseSync(file);
  try {
    db.exec("pragma wal_checkpoint(truncate)");
  } finally {
    db.close();
  }
  const count = (path: string): number =>
    existsSync(path) ? readFileSync(path, "latin1").split(secret).length - 1 : 0;
  return { file: count(file), log: count(`${file}-wal`) };
}

it("leaves no text of a deleted conversation in the file or its log", { timeout: 2 * patienceMs }, async () => {
  const file = newFile();
  const gates = createGates();
  const look = defineTool({
    description: "Looks",
    inputSchema: v.object({ at: v.string() }),
    execute: ({ at }) => ({ seen: `${at} ${secret}` }),
  });
  const turns = 24;
  const script = Array.from({ length: turns }, (_, turn) => [
    { toolCalls: [{ toolName: "look", input: { at: `${turn} ${secret}` } }] },
    `Answer ${toText(turn)}`,
    `Other ${turn}`,
  ]).flat();
  const last = async (): Promise<string> => {
    await gates.pass("last");
    return "never";
  };
  const model = scriptedModel([...script, { toolCalls: [{ toolName: "look", input: { at: secret } }] }, last]);
  const agent = toAgent(model, "helper", { tools: { look } });
  const server = await startTestServer("start", { config: { agents: [agent] }, backend: onFile(file) });
  const api = toApi(server);
  const png = `data:image/png;base64,${Buffer.from(`${secret} `.repeat(3_000)).toString("base64")}`;
  for (let turn = 0; turn < turns; turn++) {
    const parts = [{ type: "text", text: toText(turn) }, ...(turn === 3 ? [toFile(png)] : [])];
    const body = { messages: [{ id: `m${turn}`, role: "user", parts }], options: { conversationId: "c" } };
    await (await openReader(server, "/agents/helper/chat", body)).rest();
    // Beside it, in the same pages, is one that stays.
    await api.say("stays", `Kept ${turn} ${"x".repeat(turn * 50)}`);
  }
  await api.rename("c", `About ${secret}`);
  // A turn that runs has records, too.
  const running = await openReader(server, "/agents/helper/chat", {
    messages: [{ id: "last", role: "user", parts: [{ type: "text", text: secret }] }],
    options: { conversationId: "c" },
  });
  await gates.reached("last");
  expect(countSecrets(file).file).toBeGreaterThan(100);
  const base64 = png.slice(1_000, 1_040);
  expect(readFileSync(file, "latin1")).toContain(base64);
  expect((await api.remove("c")).status).toBe(200);
  expect(countSecrets(file)).toEqual({ file: 0, log: 0 });
  expect(readFileSync(file, "latin1")).not.toContain(base64);
  gates.open("last");
  await running.rest();
  expect((await api.read("stays")).body.data).toMatchObject({ messageCount: 2 * turns });
  expect(countSecrets(file)).toEqual({ file: 0, log: 0 });
});

const toFile = (url: string) => ({ type: "file", mediaType: "image/png", filename: "a.png", url });
