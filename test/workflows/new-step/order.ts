import { andThen, andWorkflow, defineWorkflow } from "../../../src/index.ts";
import { withFallback } from "./fallback-workflow.ts";

/** An order that is paid by card, or by invoice if the card fails. Each step calls `work` when it begins. */
export function createOrder(work: (step: string, executionId: string) => void | Promise<void>) {
  const step = <const Id extends string>(id: Id) => ({
    id,
    async execute({ executionId }: { executionId: string }): Promise<Id> {
      await work(id, executionId);
      return id;
    },
  });
  const card = defineWorkflow({ id: "card" }).andThen(step("check")).andThen(step("charge"));
  const reserved = defineWorkflow({ id: "order" }).andThen({
    id: "reserve",
    async execute({ executionId }) {
      await work("reserve", executionId);
      return { goods: 3 };
    },
  });
  return withFallback(reserved)
    .andFallback({
      id: "pay",
      purpose: "Takes the money, or sends a bill",
      step: andWorkflow({ id: "card", workflow: card }),
      fallback: andThen(step("invoice")),
    })
    .andThen({
      id: "ship",
      async execute({ executionId, data }) {
        await work("ship", executionId);
        // Checked by `tsc -p test`: the new method gives the chain the outputs of both steps.
        const paidBy: "charge" | "invoice" = data;
        return { paidBy };
      },
    });
}
