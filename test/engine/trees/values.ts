import type { WaitForNode } from "./make.ts";

/** The only data that a step is ever resumed with. */
export const answerOf = (path: string): string => `answer for ${path}`;
/** The time that a step waits for its answer. */
export const deadlineMs = 30_000;
/** The event that steps wait for, and its data for a key. */
export const eventName = "go";
export const eventOf = (key: string): object => ({ event: key });

/** The key of an event that a step waits for. */
export const keyOf = ({ key, checks }: Pick<WaitForNode, "key" | "checks">, path: string): string =>
  key === "none" ? "" : key === "shared" ? "all" : `${path}${checks ? "!" : ""}`;
/** Whether every step that waits for a key checks the data. */
export const isChecked = (key: string): boolean => key.endsWith("!");

export const made = (path: string, data: string | undefined, input: string | undefined): object => ({
  path,
  of: hash(data),
  in: hash(input),
});
export const itemsOf = (count: number, data: string | undefined): object[] =>
  Array.from({ length: count }, (_, item) => ({ item, of: hash(data) }));
export const mappedOf = (item: string | undefined, index: number, data: string | undefined): object => ({
  mapped: index,
  of: hash(item),
  in: hash(data),
});

export function hash(text = "undefined"): string {
  let sum = 0x811c9dc5;
  for (const character of text) sum = Math.imul(sum ^ character.charCodeAt(0), 0x01000193) >>> 0;
  return sum.toString(36);
}
