import { toContextMap, type CallContext } from "../../core/caller.ts";
import { cut } from "../../core/cut.ts";
import { ServeError } from "../../core/error.ts";
import type { JsonText } from "../../core/json.ts";
import { withIds, type Logger } from "../../core/log.ts";
import type { WorkflowDefinition } from "./definition.ts";

/** The limit of a workflow, as a backend needs it. */
export interface Concurrency {
  readonly limit: number;
  /** Returns the key of an execution that is about to start. Throws a 500 if the user's code does not return one. */
  toKey(input: JsonText, call: CallContext): string;
}

const maxOfKey = 256;

export function createConcurrency(
  { id, concurrency }: Pick<WorkflowDefinition, "id" | "concurrency">,
  logger: Logger,
): Concurrency | undefined {
  if (!concurrency) return undefined;
  const { limit, key } = concurrency;
  const fail = (error: unknown): ServeError => {
    withIds(logger, { workflowId: id }).error("The concurrency key of a workflow failed: nothing was started", {
      error,
    });
    return new ServeError(500, "Failed to execute workflow", { cause: error });
  };
  return {
    limit,
    toKey(input, call) {
      if (!key) return "";
      const { userId, conversationId } = call;
      let found: unknown; // the author may write JavaScript
      try {
        found = key({ input: JSON.parse(input), userId, conversationId, context: toContextMap(call) });
      } catch (error) {
        throw fail(error);
      }
      if (typeof found === "string" && found.length <= maxOfKey) return found;
      throw fail(new TypeError(`concurrency.key: expected ${keyRule}, found ${describe(found)}`));
    },
  };
}

const keyRule = `a text of at most ${maxOfKey} characters`;
const describe = (found: unknown): string =>
  typeof found === "string" ? `${found.length} characters` : found instanceof Promise ? "a promise" : typeof found;

/** Throws if the option `concurrency` of a workflow has a mistake. */
export function checkConcurrency(found: unknown, workflowId: string): void {
  if (found === undefined) return;
  const fail = (what: string, expected: string, value: unknown): TypeError =>
    new TypeError(`Workflow ${workflowId}: ${what}: expected ${expected}, found ${cut(toText(value))}`);
  if (typeof found !== "object" || found === null || Array.isArray(found))
    throw fail("concurrency", "{ limit, key? }", found);
  const { limit, key, ...rest } = found as { limit?: unknown; key?: unknown };
  if (!Number.isSafeInteger(limit) || (limit as number) < 1)
    throw fail("concurrency.limit", "a whole number from 1", limit);
  if (key !== undefined && typeof key !== "function") throw fail("concurrency.key", "a function", key);
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined)
    throw new TypeError(`Workflow ${workflowId}: concurrency: unknown option "${cut(unknown)}"`);
}

const toText = (value: unknown): string => (typeof value === "function" ? "a function" : String(JSON.stringify(value)));
