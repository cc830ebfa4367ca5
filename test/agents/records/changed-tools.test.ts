import { defineTool, type Tool } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { calls, createTurn, interrupt, released } from "./turns.ts";

const look = (outputSchema?: ReturnType<typeof v.object>): Tool =>
  defineTool({ description: "Looks", inputSchema: v.object({}), outputSchema, execute: () => ({ seen: "it" }) });
const script = [calls(["look", "c1"]), calls(["hold", "c2"])];
const seen = (): ReturnType<typeof v.object> => v.object({ seen: v.string() });

it("ends the turn with an error if a tool that it has called no longer exists", async () => {
  const live = createTurn();
  await interrupt(live, { script, tools: { look: look() } });
  const second = await live({ script: ["done"], tools: { hold: released }, step: { retry: { attempts: 3 } } });
  expect(await second.failure()).toBe("error: Agent changed: tool look no longer exists");
  expect(second.model.calls).toHaveLength(0);
});

it("ends the turn with an error if the tool that was in flight no longer exists", async () => {
  const live = createTurn();
  await interrupt(live, { script, tools: { look: look() } });
  const second = await live({ script: ["done"], tools: { look: look() } });
  expect(await second.failure()).toBe("error: Agent changed: tool hold no longer exists");
});

it("ends the turn with an error if a tool whose result is recorded has another output schema", async () => {
  for (const changed of [look(v.object({ seen: v.string(), more: v.optional(v.string()) })), look()]) {
    const live = createTurn();
    await interrupt(live, { script, tools: { look: look(seen()) } });
    const second = await live({ script: ["done"], tools: { look: changed, hold: released } });
    expect(await second.failure()).toBe("error: Agent changed: tool look has another outputSchema");
    expect(second.model.calls).toHaveLength(0);
  }
});

it("continues a turn if only tools have changed that it has not called, or code inside of tools", async () => {
  const live = createTurn();
  const unknown = calls(["invented", "c0"]);
  await interrupt(live, { script: [unknown, ...script], tools: { look: look(seen()), unused: look(), used: look() } });
  const second = await live({
    script: ["done"],
    tools: {
      look: { ...look(seen()), execute: () => ({ seen: "more" }) },
      used: look(seen()),
      added: look(),
      hold: released,
    },
  });
  expect(await second.ended()).toMatchObject({ status: "completed", result: "done" });
});
