import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Transition } from "../../../engine/execution.ts";
import type { Calls } from "../calls.ts";
import { read } from "./read-register.ts";
import type { ChildStartResult, BeginInput, MoveInput } from "./register-state.ts";

/** Max children of an execution that are cancelled with it. */
export const maxChildren = 1_000;

/** The children that are cancelled with their parent: its register starts them, so that a cancel comes before or after. */
export function createChildren({ calls }: { readonly calls: Calls }) {
  return {
    /** Starts a child that is cancelled with this execution. */
    async bear(context: ObjectContext, input: BeginInput): Promise<ChildStartResult> {
      if (!(await read(context))) return "missing";
      const last = await context.get<Transition>("last");
      if (last && "cancellation" in last) return "cancelled";
      const children = (await context.get<string[]>("children")) ?? [];
      const { id } = input.execution;
      if (!children.includes(id)) {
        if (children.length >= maxChildren) return "many";
        context.set("children", [...children, id]);
      }
      return calls.call<ChildStartResult>(context, "register/begin", input, { key: id });
    },

    /** Cancels the children of an execution that is cancelled. */
    async cancel(context: ObjectContext, next: Transition, token: string): Promise<void> {
      if (!("cancellation" in next)) return;
      const input: MoveInput = { next, token };
      for (const key of (await context.get<string[]>("children")) ?? [])
        calls.tell(context, "register/move", input, { key });
    },
  };
}
