import fc from "fast-check";

/** Makes records with at most three of these fields: with more of them, a filter would fit next to nothing. */
export function fewOf<T extends object>(fields: { [K in keyof T]: fc.Arbitrary<NonNullable<T[K]>> }): fc.Arbitrary<T> {
  const names = Object.keys(fields) as (keyof T)[]; // of the object literal that the caller writes
  return fc
    .subarray(names, { maxLength: 3 })
    .chain((kept) => fc.record(Object.fromEntries(kept.map((name) => [name, fields[name]])))) as fc.Arbitrary<T>;
}
