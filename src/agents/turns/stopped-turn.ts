import { setTimeout as sleep } from "node:timers/promises";
import { storePartial } from "../call/answers/partial-answer.ts";
import type { CallParts } from "../call/question.ts";
import type { HeldStoredTurn } from "../call/history/open-turn.ts";
import { lostResult } from "../call/approvals/pending-calls.ts";
import type { ToolEnd } from "../call/recorded-calls.ts";
import type { LiveTurn } from "./live-turn.ts";

/** The time that tools have to end after a stop. */
const stopMs = 100;

/** One run of a turn: its log, its call, and its place in the conversation. */
export interface TurnRun {
  readonly turn: LiveTurn;
  readonly parts: CallParts;
  readonly opened: HeldStoredTurn;
}

/** Ends a stopped turn: stores the answer so far, and gives every tool call a result. */
export async function finishStopped({ turn, parts, opened }: TurnRun): Promise<void> {
  const ends = await toEnds(parts);
  if (!turn.log.hasParts) turn.log.add({ type: "start", messageId: turn.answerId });
  for (const part of toToolEnds(opened, ends, "Stopped")) {
    opened.recorded.add(part as never);
    turn.log.add(part as never);
  }
  await storePartial(parts, opened, true);
  await opened.close();
  turn.log.add({ type: "abort", reason: "Stopped" });
  turn.log.end();
}

/**
 * Stores the tool results of a failed turn that has continued decided calls: their tools may have run, and are not decided again.
 * Other failed turns have no answer.
 */
export async function keepResults({ parts, opened }: TurnRun): Promise<void> {
  if (opened.calls.open.length === 0) return;
  try {
    for (const part of toToolEnds(opened, await toEnds(parts), lostResult)) opened.recorded.add(part as never);
    await storePartial(parts, opened, undefined);
  } catch (error) {
    const message = "The tool results of a failed turn could not be stored";
    parts.operation.context.logger.warn(message, { error });
  }
}

async function toEnds({ operation }: CallParts): Promise<Map<string, ToolEnd>> {
  const calls = operation.records?.ends ?? [];
  const ends = new Map<string, ToolEnd>();
  await Promise.race([
    Promise.all([...calls].map(async ([toolCallId, end]) => ends.set(toolCallId, await end))),
    sleep(stopMs, undefined, { ref: false }),
  ]);
  return ends;
}

/** Returns the parts that end the open tool calls of an answer, with their results or with an error. */
function toToolEnds(
  { recorded, calls: { open, decided } }: HeldStoredTurn,
  ends: ReadonlyMap<string, ToolEnd>,
  error: string,
): object[] {
  const { all } = recorded;
  const ended = new Set(
    all.flatMap((part) =>
      part.type === "tool-result" || part.type === "tool-error" || part.type === "tool-output-denied"
        ? part.toolCallId
        : [],
    ),
  );
  const made = all.flatMap((part) => (part.type === "tool-call" && !part.providerExecuted ? [part] : []));
  return [...open, ...made].flatMap((call): object[] => {
    const { toolCallId, toolName, input } = call;
    if (ended.has(toolCallId)) return [];
    const isDenied = !("type" in call) && !call.inner && decided.get(toolCallId)?.approved === false;
    if (isDenied) return [{ type: "tool-output-denied", toolCallId, toolName }];
    const part = { toolCallId, toolName, input, dynamic: "dynamic" in call ? call.dynamic : undefined };
    const end = ends.get(toolCallId);
    if (end && "output" in end) return [{ type: "tool-result", ...part, output: end.output }];
    return [{ type: "tool-error", ...part, error }];
  });
}
