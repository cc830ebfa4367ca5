import { defineTool } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { calls, createTurn, interrupt, released } from "./turns.ts";

const large = defineTool({
  description: "Is large",
  inputSchema: v.object({ bytes: v.number() }),
  execute: ({ bytes }) => "x".repeat(bytes),
});

it("fails the step of an agent with the name of the tool whose result is larger than limits.stepValueBytes", async () => {
  const live = createTurn();
  const life = await live({
    script: [calls(["large", "c1", { bytes: 900 }]), calls(["large", "c2", { bytes: 2_000 }]), "done"],
    tools: { large },
    limits: { stepValueBytes: 2_000 },
  });
  await life.begin();
  expect(await life.failure()).toBe("error: The result of tool large is 2013 bytes as JSON: the limit is 2000");
  expect(life.model.calls).toHaveLength(2);
});

it("fails the step of an agent if an answer of the model is larger than limits.stepValueBytes", async () => {
  const live = createTurn();
  const life = await live({ script: ["x".repeat(2_000)], limits: { stepValueBytes: 2_000 } });
  await life.begin();
  expect(await life.failure()).toContain("The answer of the model is");
});

it("counts the calls of an agent that were recorded before a restart in limits.executionBytes", async () => {
  const live = createTurn();
  const limits = { executionBytes: 4_000 };
  const once = calls(["large", "c1", { bytes: 2_000 }]);
  await interrupt(live, { script: [once, calls(["hold", "c2"])], tools: { large }, limits });
  const second = await live({
    script: [calls(["large", "c3", { bytes: 1_500 }]), "done"],
    tools: { large, hold: released },
    limits,
  });
  expect(await second.failure()).toContain("The calls of the turn take more than 4000 bytes");
});
