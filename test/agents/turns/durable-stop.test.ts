import { DatabaseSync } from "node:sqlite";
import { expect, it, onTestFinished } from "vitest";
import { newFile } from "../../harness/folders.ts";
import { held, live } from "./lives.ts";

it("answers a stop and a new title with 503 while they cannot be stored", async () => {
  const file = newFile();
  const slow = held("never");
  const { server, begin } = await live(file, { script: [slow.step] });
  await begin("one");
  await slow.reached;
  const lock = new DatabaseSync(file);
  onTestFinished(() => void (lock.isOpen && lock.close()));
  lock.exec("begin immediate");
  const renamed = await server.request("/agents/a/conversations/c?userId=ada", {
    method: "PATCH",
    json: { title: "x" },
  });
  const refusal = "Storage cannot be written: the title was not changed";
  expect(renamed).toMatchObject({ status: 503, body: { error: refusal } });
  const { status, body } = await server.post("/agents/a/conversations/c/stop?userId=ada", {});
  expect([status, body.error]).toEqual([503, "The turn was stopped, but storage cannot be written"]);
  lock.close();
});
