import { DatabaseSync } from "node:sqlite";
import { expect, it, onTestFinished } from "vitest";
import { newFile } from "../../harness/folders.ts";
import { held, live } from "./lives.ts";

const changes = [
  ["PATCH", "c?userId=ada", { title: "x" }, "the title was not changed"],
  ["POST", "done/messages?userId=ada", { text: "x" }, "this turn was not stored"],
  ["DELETE", "done?userId=ada", undefined, "the conversation may not be deleted"],
] as const;

it("answers changes of a conversation with an error if they cannot be stored, and with 503 if a retry may help", async () => {
  const file = newFile();
  const slow = held("never");
  const { server, begin } = await live(file, { script: ["ok", slow.step] });
  await server.post("/agents/a/text", { input: "x", options: { userId: "ada", conversationId: "done" } });
  await begin("one");
  await slow.reached;
  const change = async ([method, path, json]: (typeof changes)[number]) => {
    const { status, body } = await server.request(`/agents/a/conversations/${path}`, { method, json });
    return [status, body.error];
  };
  const db = new DatabaseSync(file);
  onTestFinished(() => void (db.isOpen && db.close()));
  db.exec("create trigger refuse before update on conversations begin select raise(abort, 'refused'); end");
  for (const one of changes) expect(await change(one)).toEqual([500, "Internal server error"]);
  db.exec("drop trigger refuse; begin immediate");
  for (const one of changes) expect(await change(one)).toEqual([503, `Storage cannot be written: ${one[3]}`]);
  const { status, body } = await server.post("/agents/a/conversations/c/stop?userId=ada", {});
  expect([status, body.error]).toEqual([503, "The turn was stopped, but storage cannot be written"]);
  db.close();
});
