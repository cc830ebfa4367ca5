import { setTimeout as sleep } from "node:timers/promises";
import { storePartial, type CallParts, type HeldTurn } from "../call/call.ts";
import { lostResult } from "../call/pending-calls.ts";
import type { ToolEnd } from "../call/recorded-calls.ts";
import type { LiveTurn } from "./live-turn.ts";

/** The time that tools get to end after a stop. */
const stopMs = 100;

/** Ends a turn that was stopped: the part of the answer that was made is stored, and every tool call has a result. */
export async function finishStopped(turn: LiveTurn, parts: CallParts, opened: HeldTurn): Promise<void> {
  const ends = await toEnds(parts);
  if (!turn.log.hasParts) turn.log.add({ type: "start", messageId: turn.answerId });
  for (const part of toToolEnds(opened, ends, "Stopped")) {
    opened.recorded!.add(part as never);
    turn.log.add(part as never);
  }
  await storePartial(parts, opened, true);
  await opened.close();
  turn.log.add({ type: "abort", reason: "Stopped" });
  turn.log.end();
}

/**
 * Stores the results of a turn that has failed and that has continued calls which were decided: their tools may have run, and
 * they are not decided again. Other turns that fail have no answer.
 */
export async function keepResults(parts: CallParts, opened: HeldTurn): Promise<void> {
  if (!opened.open?.length) return;
  const { logger } = parts.operation.context;
  try {
    for (const part of toToolEnds(opened, await toEnds(parts), lostResult)) opened.recorded!.add(part as never);
    await storePartial(parts, opened, undefined);
  } catch (error) {
    logger.warn("The results of tools of a turn that has failed could not be stored", { error });
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

/** Returns the parts that end the open tool calls of an answer: with their results, or with an error. */
function toToolEnds(
  { recorded, open = [], decided }: HeldTurn,
  ends: ReadonlyMap<string, ToolEnd>,
  error: string,
): object[] {
  const all = recorded?.all ?? [];
  const ended = new Set(all.flatMap((part) => (isEnd(part) ? part.toolCallId : [])));
  const made = all.flatMap((part) => (part.type === "tool-call" && !part.providerExecuted ? [part] : []));
  return [...open, ...made].flatMap((call): object[] => {
    const { toolCallId, toolName, input } = call;
    if (ended.has(toolCallId)) return [];
    const isDenied = !("type" in call) && !call.inner && decided?.get(toolCallId)?.approved === false;
    if (isDenied) return [{ type: "tool-output-denied", toolCallId, toolName }];
    const part = { toolCallId, toolName, input, dynamic: "dynamic" in call ? call.dynamic : undefined };
    const end = ends.get(toolCallId);
    if (end && "output" in end) return [{ type: "tool-result", ...part, output: end.output }];
    return [{ type: "tool-error", ...part, error }];
  });
}

type AnyPart = NonNullable<HeldTurn["recorded"]>["all"][number];
const isEnd = (
  part: AnyPart,
): part is Extract<AnyPart, { type: "tool-result" | "tool-error" | "tool-output-denied" }> =>
  part.type === "tool-result" || part.type === "tool-error" || part.type === "tool-output-denied";
