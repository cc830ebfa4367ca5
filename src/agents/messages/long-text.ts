import { setImmediate as nextTurn } from "node:timers/promises";

/** The length of a text that takes milliseconds to convert. Other requests get a turn before the next one. */
export const longText = 500_000;

/** Gives other requests a turn of the event loop after a long text was converted. */
export async function yieldAfter(text: string): Promise<void> {
  if (text.length > longText) await nextTurn();
}
