import fc from "fast-check";
import { expect, it } from "vitest";
import {
  joinValues,
  maxInlineBytes,
  sizeOf,
  toItems,
  toText,
  toValue,
  wrapValue,
  type Value,
} from "../../../src/engine/walk/value.ts";

const text = fc.oneof(
  fc.json(),
  fc.tuple(fc.constantFrom("a", "é", "漢", "😀"), fc.integer({ min: 250, max: 1_100 })).map(([letter, length]) => {
    return JSON.stringify(letter.repeat(length));
  }),
);

it("carries texts of up to 1 KB in UTF-8, and refers to the row of longer ones", () => {
  fc.assert(
    fc.property(text, (one) => {
      const value = toValue(one, 7);
      const bytes = Buffer.byteLength(one);
      expect(value).toEqual(bytes <= maxInlineBytes ? one : { row: 7, bytes });
    }),
  );
  const longest = JSON.stringify("x".repeat(maxInlineBytes - 2));
  expect(toValue(longest, 1)).toBe(longest);
  expect(toValue(JSON.stringify("x".repeat(maxInlineBytes - 1)), 1)).toEqual({ row: 1, bytes: maxInlineBytes + 1 });
  expect(toValue(undefined, 1)).toBeUndefined();
});

it("joins values of any size, and joins of joins, to the text that JSON.stringify gives", () => {
  const { nested } = fc.letrec<{ nested: Tree }>((tie) => ({
    nested: fc.oneof({ maxDepth: 3 }, fc.option(text, { nil: undefined }), fc.array(tie("nested"), { maxLength: 4 })),
  }));
  fc.assert(
    fc.property(nested, (tree) => {
      const rows: string[] = ["the input"];
      const value = build(tree, rows);
      const expected = toPlain(tree);
      const found = toText(value, (row) => rows[row]);
      expect(found === undefined ? undefined : JSON.parse(found)).toEqual(expected);
    }),
  );
});

type Tree = string | undefined | Tree[];

function build(tree: Tree, rows: string[]): Value {
  if (Array.isArray(tree)) return joinValues(tree.map((one) => build(one, rows)));
  if (tree === undefined) return undefined;
  return toValue(tree, rows.push(tree) - 1);
}

const toPlain = (tree: Tree): unknown =>
  Array.isArray(tree) ? tree.map((one) => toPlain(one) ?? null) : tree === undefined ? undefined : JSON.parse(tree);

it("finds the items of an array by reference, and the items of items, equal to those of the parsed array", () => {
  const item = fc.oneof(
    fc.jsonValue(),
    text.map((one) => JSON.parse(one) as unknown),
  );
  const arrays = fc.array(fc.oneof(item, fc.array(item, { maxLength: 4 })), { maxLength: 5 });
  const seen = { short: 0, long: 0, nested: 0 };
  fc.assert(
    fc.property(arrays, arrays, (array, other) => {
      const rows = [array, other].map((one) => JSON.stringify(one));
      const read = (row: number): string | undefined => rows[row - 1];
      const values = rows.map((one, index) => toValue(one, index + 1));
      const checkItems = (value: Value, expected: readonly unknown[]): void => {
        const items = toItems(value, expected.length);
        for (const [index, one] of expected.entries()) {
          const found = items(index);
          expect(toText(found, read)).toBe(JSON.stringify(one));
          if (!Array.isArray(one)) continue;
          checkItems(found, one);
          seen.nested++;
        }
      };
      for (const value of values) seen[typeof value === "string" ? "short" : "long"]++;
      checkItems(values[0], array);
      checkItems(joinValues(values), [array, other]);
      // In turns: the array that was read last is not the one that is asked for.
      const [items, others] = [toItems(values[0], array.length), toItems(values[1], other.length)];
      for (let index = 0; index < Math.max(array.length, other.length); index++) {
        if (index < array.length) expect(toText(items(index), read)).toBe(JSON.stringify(array[index]));
        if (index < other.length) expect(toText(others(index), read)).toBe(JSON.stringify(other[index]));
      }
    }),
    { numRuns: 500 },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
});

it("wraps a value of any size, and knows the size of everything that is not an item", () => {
  fc.assert(
    fc.property(fc.array(fc.option(text, { nil: undefined }), { maxLength: 4 }), (texts) => {
      const read = (row: number): string | undefined => texts[row - 1];
      const wrapped = texts.map((one, index) => wrapValue('{"a":', toValue(one, index + 1), "}"));
      const value = joinValues(wrapped);
      const expected = `[${texts.map((one) => `{"a":${one ?? "null"}}`).join()}]`;
      expect(toText(value, read)).toBe(expected);
      expect(sizeOf(value)).toBe(Buffer.byteLength(expected));
    }),
  );
});
