const self = { $ref: "#" };
const list = { type: "array", minItems: 1, items: self };
const map = { type: "object", additionalProperties: self };
const text = { type: "string" };
const texts = { type: "array", items: text };
const number = { type: "number" };
const count = { type: "integer", minimum: 0 };
const types = ["array", "boolean", "integer", "null", "number", "object", "string"];

/**
 * The meta-schema of JSON Schema 2020-12, reduced to the type of each keyword. The official one has eight documents and dynamic
 * references, which few validators support.
 */
export const metaSchema: Record<string, unknown> = {
  type: ["object", "boolean"],
  properties: {
    $ref: text,
    $anchor: text,
    $id: text,
    $schema: text,
    $defs: map,
    definitions: map,
    type: { anyOf: [{ enum: types }, { type: "array", minItems: 1, items: { enum: types } }] },
    enum: { type: "array" },
    allOf: list,
    anyOf: list,
    oneOf: list,
    not: self,
    if: self,
    // oxlint-disable-next-line unicorn/no-thenable -- a keyword
    then: self,
    else: self,
    properties: map,
    patternProperties: { ...map, propertyNames: { format: "regex" } },
    additionalProperties: self,
    unevaluatedProperties: self,
    propertyNames: self,
    dependentSchemas: map,
    dependentRequired: { type: "object", additionalProperties: texts },
    required: texts,
    minProperties: count,
    maxProperties: count,
    prefixItems: list,
    items: { anyOf: [self, { type: "array", items: self }] }, // an array of schemas was valid up to 2019-09
    contains: self,
    unevaluatedItems: self,
    minContains: count,
    maxContains: count,
    minItems: count,
    maxItems: count,
    uniqueItems: { type: "boolean" },
    minimum: number,
    maximum: number,
    exclusiveMinimum: number,
    exclusiveMaximum: number,
    multipleOf: { type: "number", exclusiveMinimum: 0 },
    minLength: count,
    maxLength: count,
    pattern: { type: "string", format: "regex" },
    format: text,
    title: text,
    description: text,
  },
};
