import { DatabaseSync } from "node:sqlite";
import { expect, it, onTestFinished } from "vitest";
import { newFile } from "../../workflows/waits/serve.ts";
import { held, live } from "./lives.ts";

it("answers a stop with 503 while the stop cannot be stored", async () => {
  const file = newFile();
  const slow = held("never");
  const { server, begin } = await live(file, { script: [slow.step] });
  await begin("one");
  await slow.reached;
  const lock = new DatabaseSync(file);
  onTestFinished(() => void (lock.isOpen && lock.close()));
  lock.exec("begin immediate");
  const { status, body } = await server.post("/agents/a/conversations/c/stop?userId=ada", {});
  expect([status, body.error]).toEqual([503, "The turn was stopped, but storage cannot be written"]);
  lock.close();
});
