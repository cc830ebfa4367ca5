import { embedded } from "agentserve";
import { expect, it } from "vitest";
import type { Backend } from "../../../src/engine/contract/backend.ts";
import type { Turn } from "../../../src/engine/contract/conversations.ts";
import { createGates } from "../../harness/gates.ts";
import { startTestServer } from "../../harness/server.ts";
import { createAgent } from "./lives.ts";

it("tells readers of a failed turn only when its conversation is free for the next one", async () => {
  const gates = createGates();
  let isAnswered = false;
  // On Restate, other replicas know the end of a turn only when `close` has resolved.
  const slow = (turn: Turn): Turn => ({
    ...turn,
    close: async (isUnfinished) => {
      await gates.pass("close");
      await turn.close(isUnfinished);
    },
  });
  const own = embedded({ path: ":memory:" });
  const backend: Backend = {
    ...own,
    open(parts) {
      const opened = own.open(parts);
      const { conversations } = opened;
      const open: typeof conversations.open = async (...args) => slow(await conversations.open(...args));
      const wrapped = new Proxy(conversations, {
        get: (target, key) => {
          const value: unknown = key === "open" ? open : Reflect.get(target, key);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
      return { ...opened, conversations: wrapped };
    },
  };
  const { agent } = createAgent([new Error("The model is down")]);
  const server = await startTestServer("in process", { config: { agents: [agent], backend } });
  const answer = server.post("/agents/a/text", { input: "one", options: { conversationId: "c" } }).then((got) => {
    isAnswered = true;
    return got;
  });
  await gates.reached("close");
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  expect(isAnswered).toBe(false);
  gates.open("close");
  expect(await answer).toMatchObject({ status: 502 });
});
