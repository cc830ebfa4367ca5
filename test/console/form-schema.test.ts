import { expect, it } from "vitest";
import { resolve, toInitial, toKind, type JsonSchema } from "../../src/console/page/parts/schema.ts";

it.each<[JsonSchema, string]>([
  [{ type: "string" }, "text"],
  [{ type: "integer" }, "number"],
  [{ type: "boolean" }, "boolean"],
  [{ type: "string", enum: ["a", "b"] }, "choice"],
  [{ enum: [1, 2] }, "json"],
  [{ type: "object", properties: {} }, "object"],
  [{ type: "object" }, "json"],
  [{ type: "array", items: { type: "string" } }, "list"],
  [{ type: "array" }, "json"],
  [{ type: ["string", "null"] }, "json"],
  [{ anyOf: [{ type: "string" }, { type: "number" }] }, "json"],
  [{}, "json"],
])("a form asks for the JSON Schema %j with a field of the kind %s", (schema, kind) => {
  expect(toKind(schema)).toBe(kind);
});

it("a form starts with the defaults of a JSON Schema, and with required values", () => {
  const schema: JsonSchema = {
    type: "object",
    required: ["on", "list", "name", "inner"],
    properties: {
      on: { type: "boolean" },
      list: { type: "array", items: {} },
      name: { type: "string" },
      inner: { type: "object", required: ["on"], properties: { on: { type: "boolean" } } },
      size: { type: "number", default: 3 },
      other: { type: "boolean" },
    },
  };
  expect(toInitial(schema, schema)).toEqual({ on: false, list: [], inner: { on: false }, size: 3 });
});

it("a form follows references within a JSON Schema, and ends at a reference to itself", () => {
  const root: JsonSchema = {
    $defs: { a: { $ref: "#/$defs/b" }, b: { type: "string" }, loop: { $ref: "#/$defs/loop" } },
  };
  expect(resolve({ $ref: "#/$defs/a" }, root)).toEqual({ type: "string" });
  expect(toKind(resolve({ $ref: "#/$defs/loop" }, root))).toBe("json");
  expect(toKind(resolve({ $ref: "#/$defs/missing" }, root))).toBe("json");
  expect(toKind(resolve({ $ref: "https://elsewhere.test/schema" }, root))).toBe("json");
});

it("a form asks for the one alternative of a JSON Schema that is not null", () => {
  expect(toKind(resolve({ anyOf: [{ type: "string" }, { type: "null" }] }, {}))).toBe("text");
});
