import { setTimeout as sleep } from "node:timers/promises";
import { storeStopped, type CallParts, type HeldTurn } from "../call/call.ts";
import type { ToolEnd } from "../call/recorded-calls.ts";
import type { LiveTurn } from "./live-turn.ts";

/** The time that tools get to end after a stop. */
const stopMs = 100;

/** Ends a turn that was stopped: the part of the answer that was made is stored, and every tool call has a result. */
export async function finishStopped(turn: LiveTurn, parts: CallParts, opened: HeldTurn): Promise<void> {
  const calls = parts.operation.records?.ends ?? [];
  const ends = new Map<string, ToolEnd>();
  await Promise.race([
    Promise.all([...calls].map(async ([toolCallId, end]) => ends.set(toolCallId, await end))),
    sleep(stopMs, undefined, { ref: false }),
  ]);
  if (!turn.log.hasParts) turn.log.add({ type: "start", messageId: turn.answerId });
  for (const part of toToolEnds(opened, ends)) {
    opened.recorded!.add(part as never);
    turn.log.add(part as never);
  }
  await storeStopped(parts, opened);
  await opened.close();
  turn.log.add({ type: "abort", reason: "Stopped" });
  turn.log.end();
}

/** Returns the parts that end the open tool calls of an answer: with their results, or with the error `Stopped`. */
function toToolEnds({ recorded }: HeldTurn, ends: ReadonlyMap<string, ToolEnd>): object[] {
  const all = recorded?.all ?? [];
  const ended = new Set(
    all.flatMap((part) => (part.type === "tool-result" || part.type === "tool-error" ? part.toolCallId : [])),
  );
  return all.flatMap((part): object[] => {
    if (part.type !== "tool-call" || part.providerExecuted || ended.has(part.toolCallId)) return [];
    const { toolCallId, toolName, input, dynamic } = part;
    const call = { toolCallId, toolName, input, dynamic };
    const end = ends.get(toolCallId);
    if (end && "output" in end) return [{ type: "tool-result", ...call, output: end.output }];
    return [{ type: "tool-error", ...call, error: "Stopped" }];
  });
}
