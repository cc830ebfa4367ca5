import * as v from "valibot";
import { idRule, isId, isReserved, reservedRule } from "../core/id.ts";
import { AnyObject, GivenId } from "../http/input.ts";
import type { ForkOptions } from "../engine/runtime.ts";
import type { BeginOptions } from "./executions.ts";

/** The id that a client chooses for a new execution. */
export const OwnExecutionId: v.GenericSchema<string | undefined> = v.optional(
  v.pipe(
    v.string(),
    v.check((id: string) => isId(id), `expected ${idRule}`),
    v.check((id: string) => !isReserved(id), reservedRule),
  ),
);

/** The options of a fork from code. */
export const ForkOptionsShape: v.GenericSchema<ForkOptions> = v.object({
  fromStep: v.optional(v.string()),
  input: v.optional(v.unknown()),
  executionId: OwnExecutionId,
});

const ownId = v.optional(GivenId);
/** The options of a new execution. */
export const StartOptionsShape: v.GenericSchema<BeginOptions> = v.pipe(
  v.object({ userId: ownId, conversationId: ownId, executionId: OwnExecutionId, context: v.optional(AnyObject) }),
  v.title("ExecutionOptions"),
);
