import type { ExecutionStatus, SuspensionKind } from "../server/live.ts";

const words: Record<SuspensionKind, string> = {
  person: "waits for a person",
  request: "suspended",
  timer: "sleeps",
  event: "waits for an event",
  system: "suspended by the server",
};

/** The status of an execution or a step, as a coloured word. */
export function Status({ status, kind }: { status: ExecutionStatus | string; kind?: SuspensionKind | undefined }) {
  const word = status === "suspended" && kind ? words[kind] : status;
  return (
    <span class="status" data-status={status} data-kind={kind}>
      {word}
    </span>
  );
}
