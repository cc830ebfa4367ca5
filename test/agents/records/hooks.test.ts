import { defineTool, type AgentHooks } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { calls, createTurn, interrupt, released } from "./turns.ts";

const add = defineTool({
  description: "Adds one",
  inputSchema: v.object({ n: v.number() }),
  execute: ({ n }) => n + 1,
});

function recorder() {
  const heard: string[] = [];
  const hooks: AgentHooks = {
    onStart: () => void heard.push("start"),
    onStepEnd: ({ step: { stepNumber } }) => void heard.push(`step ${stepNumber}`),
    onToolStart: ({ toolCallId }) => void heard.push(`tool ${toolCallId}`),
    onToolEnd: ({ toolCallId }) => void heard.push(`tool-end ${toolCallId}`),
    onEnd: ({ text, steps }) => void heard.push(`end ${text} ${steps.length}`),
  };
  return { heard, hooks };
}

it("calls no hook of an agent again for what was recorded before a restart, and onEnd at its end", async () => {
  const live = createTurn();
  const before = recorder();
  await interrupt(live, {
    // The second call is refused by the schema: its tool does not run, and has no record.
    script: [
      calls(["add", "c1", { n: 1 }], ["add", "c2", { n: "wrong" }]),
      calls(["add", "c3", { n: 3 }], ["hold", "c4"]),
    ],
    tools: { add },
    agent: { hooks: before.hooks },
  });
  expect(before.heard.slice(0, 4)).toEqual(["start", "tool c1", "tool-end c1", "step 0"]);
  expect(before.heard.slice(4).toSorted()).toEqual(["tool c3", "tool c4", "tool-end c3"]);

  const after = recorder();
  const second = await live({ script: ["done"], tools: { add, hold: released }, agent: { hooks: after.hooks } });
  expect(await second.ended()).toMatchObject({ status: "completed", result: "done" });
  // The tool that was in flight runs again, so its step has not ended before.
  expect(after.heard).toEqual(["tool c4", "tool-end c4", "step 1", "step 2", "end done 3"]);
  expect(second.model.calls).toHaveLength(1);
});
