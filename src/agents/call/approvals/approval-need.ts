import { toErrorMessage } from "../../../core/error.ts";
import type { Operation } from "../operation.ts";
import type { ApprovalNeed } from "../recorded-calls.ts";
import { reportTool, ToolFailure, type ToolCallName } from "../tool-failure.ts";

/** The reason of a call that cannot wait. */
const cannotWait = "This tool needs an approval, and a call without a stored conversation cannot wait for one";

/**
 * Answers whether a call needs an approval.
 *
 * N1. The author's function is asked once for each call. Its answer is recorded: a turn gets the same one when it is
 *     repeated after a crash. An approved call is not asked about again.
 * N2. If it fails, the call fails as its tool would, and the failure is logged once. The tool does not run.
 * N3. A call that cannot wait is denied (`toDenials`). Its refusal keeps the tool from running in any case.
 */
export async function needsApproval(operation: Operation, call: ToolCallName, ask: () => unknown): Promise<boolean> {
  const { records } = operation;
  const { name, toolCallId } = call;
  const toNeed = (): Promise<ApprovalNeed> => askNeed(operation, call, ask);
  if (operation.outcomeOf(toolCallId)) return true;
  operation.approvals.forget(name, toolCallId);
  const need = await (records ? records.needApproval(toolCallId, toNeed) : toNeed());
  if ("error" in need) {
    operation.approvals.refuse(name, toolCallId, need.error);
    return false;
  }
  if (!need.isNeeded) return false;
  if (!operation.mayWait) operation.approvals.refuse(name, toolCallId, cannotWait);
  operation.approvals.request(toolCallId);
  return true;
}

/** Throws if the tool of a call must not run. */
export function refuse({ approvals }: Operation, name: string, toolCallId: string): void {
  const reason = approvals.reasonOf(name, toolCallId);
  if (reason !== undefined) throw new ToolFailure(reason);
}

async function askNeed(operation: Operation, call: ToolCallName, ask: () => unknown): Promise<ApprovalNeed> {
  try {
    const isNeeded = await ask();
    if (typeof isNeeded === "boolean") return { isNeeded };
    const found = isNeeded === null ? "null" : typeof isNeeded;
    throw new TypeError(`needsApproval: expected true or false, found ${found}`);
  } catch (error) {
    const message = `needsApproval of tool ${call.name} failed, so the call fails`;
    return { error: toErrorMessage(reportTool(operation, call, error, message)) };
  }
}

/** The approvals of tools for the AI SDK, if the call cannot wait: a tool call that needs one is denied. */
export function toDenials(tools: Readonly<Record<string, object>>): Record<string, unknown> {
  const denials = Object.entries(tools).flatMap(([name, tool]) => {
    const { needsApproval: ask } = tool as { needsApproval?: (input: unknown, options: object) => unknown };
    const decide = async (input: unknown, options: object) =>
      (await ask!(input, options)) === true ? { type: "denied", reason: cannotWait } : undefined;
    return typeof ask === "function" ? [[name, decide]] : [];
  });
  return Object.fromEntries(denials) as Record<string, unknown>;
}
