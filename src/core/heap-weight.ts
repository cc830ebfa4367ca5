import { getHeapStatistics } from "node:v8";

/** The heap that a byte of JSON costs while it is used: its text, its value, and copies. 2 MB were measured at 8 to 10. */
export const heapPerByte = 5;
/** Smaller texts are not looked at. */
export const smallBytes = 16_384;
/** An estimate of the bytes of text that cost as much heap as one object or array. `{}` takes only 2 bytes of text. */
const bytesPerContainer = 10;

/** The bytes of a JSON text, with an addition for its objects and arrays: `[{},{},…]` costs more heap than one long string. */
export function toWeight(text: string): number {
  if (text.length <= smallBytes) return text.length;
  let containers = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === openBrace || code === openBracket) containers++;
  }
  return text.length + containers * bytesPerContainer;
}
const openBrace = 123;
const openBracket = 91;

/** The weight of a byte of values that are not loaded. */
export const unknownDensity = 2;

/** The heap that values in use may take by default: a quarter of the limit of the process. */
export const quarterOfHeap = (): number => {
  const limit = getHeapStatistics().heap_size_limit;
  return Math.max(limit - youngBytes, limit / 2) / 4;
};

/** The part of `heap_size_limit` that values in use cannot take: `--max-old-space-size=160` sets that limit to 352 MiB. */
const youngBytes = 192 * 1_048_576;
