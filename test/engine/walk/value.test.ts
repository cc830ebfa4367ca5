import fc from "fast-check";
import { expect, it } from "vitest";
import { joinValues, maxInlineBytes, toText, toValue, type Value } from "../../../src/engine/walk/value.ts";

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
