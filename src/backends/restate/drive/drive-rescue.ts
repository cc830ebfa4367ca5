import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Program } from "../../../engine/contract/program.ts";
import { findMismatch, toChangeReason, toGone } from "../../../engine/compare-steps.ts";
import type { Execution, Transition } from "../../../engine/execution.ts";
import { forgetSolo } from "../former/solo.ts";
import type { ReplicaServiceParts } from "../replica.ts";
import { RegisterLink } from "./drive-link.ts";
import { DriveRows } from "./drive-rows.ts";
import type { DriveInput, RescueCause } from "../register/register-state.ts";
import { findDifference } from "./replay-rows.ts";
import { loadRows, startedIn, type StoredRow } from "./rows.ts";
import { readPosition } from "../../../engine/steps/read-steps.ts";
import { crashed, interrupted } from "../../../engine/rules/crashes.ts";

/** The result of a comparison: the steps to continue on, or the transition that ends the drive. */
type RescueDecision = { readonly steps: Execution["steps"] } | { readonly next: Transition };

/**
 * Decides how an execution continues after a rescue has ended its drive. It runs no step: either a drive on the code of
 * today follows, or the execution is suspended or fails. Restate's journal has the verdict, so a repetition on other code
 * does the same.
 */
export async function runRescue(
  context: ObjectContext,
  parts: ReplicaServiceParts,
  input: DriveInput & { readonly cause: RescueCause },
): Promise<void> {
  const { host } = parts;
  const { execution, epoch, commands, cause } = input;
  const link = new RegisterLink(context, parts.calls);
  forgetSolo(context, input);
  const stored = await loadRows(context, host, { id: execution.id, epoch });
  const verdict = await context.run("verdict", async (): Promise<RescueDecision> => {
    const message = cause === "restart" ? interrupted : cause === "original" ? toRemoved(execution) : undefined;
    if (message !== undefined) return { next: { at: Date.now(), to: "error", error: { message, shown: true } } };
    const reason = cause === "crashes" ? crashed : await compare(input, stored, await host.programs.find(execution));
    if (typeof reason === "object") return reason;
    const position = await readPosition(execution, [stored], undefined);
    return { next: { at: Date.now(), to: "suspended", kind: "system", reason, pending: [], position } };
  });
  if ("steps" in verdict) return link.handOver({ steps: verdict.steps });
  const rows = new DriveRows(context, host, input);
  for (const row of stored) rows.add(row);
  rows.storeCommands(commands);
  for (;;) {
    if (rows.status === "running") {
      const { isMade } = await rows.settle(link, verdict.next, { made: rows.toCommand(verdict.next) });
      if (isMade) return;
    } else if (rows.status !== "suspended" || (await link.leave(rows.epoch))) return;
    const answer = await link.command(rows.epoch + 1);
    if ("command" in answer) rows.storeCommands([{ epoch: rows.epoch + 1, next: answer.command }]);
  }
}

/** Compares the rows with the code of today. Returns the reason why it does not fit, or the steps to continue on. */
async function compare(
  { execution, commands }: DriveInput,
  stored: readonly StoredRow[],
  program: Program | undefined,
): Promise<string | { readonly steps: Execution["steps"] }> {
  if (!program) return toChangeReason(toGone(execution.workflowId));
  const { steps } = program;
  const change =
    findMismatch(execution.steps, steps, startedIn(stored)) ??
    (await findDifference(execution, stored, commands, program));
  return change === undefined ? { steps } : toChangeReason(change);
}

const toRemoved = ({ fork }: Execution): string => `Execution ${fork?.from} was removed before its results were copied`;
