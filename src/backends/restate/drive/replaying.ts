import type { Context } from "@restatedev/restate-sdk";

/** A message that asks the logger of the endpoint whether its handler replays a journal. */
class ReplayProbe {
  isReplaying = false;
}

/**
 * Returns true if the next call of a handler is in Restate's journal: an earlier attempt has made it. Before the first call: if
 * the attempt repeats an earlier one. The SDK says so only to its logger.
 */
export function isReplaying(context: Context): boolean {
  const probe = new ReplayProbe();
  context.console.debug(probe);
  return probe.isReplaying;
}

/** Answers `isReplaying`. Returns false for any other message. */
export function answerProbe(message: unknown, isReplay: boolean): boolean {
  if (!(message instanceof ReplayProbe)) return false;
  message.isReplaying = isReplay;
  return true;
}
