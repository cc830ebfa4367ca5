import { randomFillSync } from "node:crypto";

/** Random bytes for many ids: a call of the random generator for each id would cost a microsecond. */
const pool = Buffer.alloc(4_096);
let at = pool.length;

function randomHex(bytes: number): string {
  if (at + bytes > pool.length) {
    randomFillSync(pool);
    at = 0;
  }
  const from = at;
  at += bytes;
  return pool.toString("hex", from, at);
}

export const newTraceId = (): string => randomHex(16);
export const newSpanId = (): string => randomHex(8);
