import { defineTool } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { finishPart } from "../../harness/finish-part.ts";
import { calls, createTurn, interrupt, released } from "./turns.ts";

it("uses no record of an attempt that has failed, and gives the tools of the next one other keys", async () => {
  const live = createTurn();
  const keys: string[] = [];
  const send = defineTool({
    description: "Sends",
    inputSchema: v.object({}),
    execute: (_, { idempotencyKey }) => void keys.push(idempotencyKey),
  });
  const step = { retry: { attempts: 2, delay: 0 } };
  const tools = { send, hold: released };
  const once = calls(["send", "c1"]);
  await interrupt(live, { script: [once, new Error("down"), once, calls(["hold", "c2"])], tools: { send }, step });
  expect(keys).toHaveLength(2);
  const second = await live({ script: ["done"], tools, step });
  expect(await second.ended()).toMatchObject({ status: "completed", result: "done" });
  expect(second.model.calls).toHaveLength(1);
  expect(keys).toHaveLength(2);
  expect(new Set(keys).size).toBe(2);
});

it("records nothing of a model call that fails or does not finish, and runs none of its tools", async () => {
  const live = createTurn();
  let ran = 0;
  const send = defineTool({ description: "Sends", inputSchema: v.object({}), execute: () => ++ran });
  const call = { type: "tool-call", toolCallId: "c1", toolName: "send", input: "{}" } as const;
  const finish = finishPart("tool-calls", "tool_calls");
  const step = { retry: { attempts: 3, delay: 0 } };
  const life = await live({
    script: [
      // Some providers finish after an error.
      [call, { type: "error", error: new Error("down") }, finish],
      // Others end without a finish part.
      [call],
      "done",
    ],
    tools: { send },
    step,
  });
  await life.begin();
  expect(await life.ended()).toMatchObject({ status: "completed", result: "done" });
  expect(life.model.calls).toHaveLength(3);
  expect(ran).toBe(0);
});
