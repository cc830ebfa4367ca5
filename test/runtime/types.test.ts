import { expectTypeOf, it } from "vitest";
import * as v from "valibot";
import { defineAgent, defineWorkflow, type ExecutionHandle, type Runtime, type SystemRuntime } from "agentserve";
import { echoModel } from "agentserve/models";

// Compiled by `tsc -p test`; what is marked @ts-expect-error must not compile.
declare const runtime: Runtime;
declare const system: SystemRuntime;
const order = defineWorkflow({
  id: "order",
  input: v.object({ amount: v.pipe(v.string(), v.transform(Number)) }),
}).andThen({
  id: "pay",
  execute: ({ data }) => ({ paid: data.amount }),
});
const agent = defineAgent({ id: "agent", instructions: "", model: echoModel() });

it("types the input and the result of a workflow that the runtime starts", () => {
  () => {
    expectTypeOf(runtime.start(order, { amount: "5" })).resolves.toEqualTypeOf<ExecutionHandle<{ paid: number }>>();
    expectTypeOf(runtime.start("order", { any: 1 })).resolves.toEqualTypeOf<ExecutionHandle>();
    // @ts-expect-error the schema takes a text
    void runtime.start(order, { amount: 5 });
    // @ts-expect-error an input is required
    void runtime.start(order);
    // @ts-expect-error an agent is not a workflow
    void runtime.start(agent, { amount: "5" });
    // @ts-expect-error only the runtime of the server acts for another user
    void runtime.start(order, { amount: "5" }, { as: { id: "ada" } });
    void system.start(order, { amount: "5" }, { as: { id: "ada" } });
    // @ts-expect-error a user has an id
    void system.start(order, { amount: "5" }, { as: {} });
  };
});

it("types the outcome of an execution by its status", () => {
  async () => {
    const outcome = await runtime.execute(order, { amount: "5" });
    if (outcome.status === "completed") expectTypeOf(outcome.result).toEqualTypeOf<{ paid: number }>();
    if (outcome.status === "suspended") expectTypeOf(outcome.suspension.reason).toEqualTypeOf<string>();
    if (outcome.status === "error") expectTypeOf(outcome.error).toEqualTypeOf<string>();
    // @ts-expect-error it may have failed
    outcome.result;
  };
});

it("types the answer of an agent that the runtime asks", () => {
  () => {
    expectTypeOf(runtime.ask(agent, "hi")).resolves.toEqualTypeOf<string>();
    expectTypeOf(runtime.ask("agent", "hi", { schema: v.object({ ok: v.boolean() }) })).resolves.toEqualTypeOf<{
      ok: boolean;
    }>();
    // @ts-expect-error a workflow is not an agent
    void runtime.ask(order, "hi");
  };
});
