import { createServer as createHttp } from "node:http";
import type { AddressInfo } from "node:net";
import { attack, object, type Attack, type Json } from "./verdict.ts";

const nest = (depth: number, inner: unknown, key: string): unknown =>
  depth === 0 ? inner : { [key]: nest(depth - 1, inner, key) };
/** A schema of exactly so many bytes. */
const sized = (bytes: number): Json => ({
  type: "object",
  title: "x".repeat(bytes - '{"type":"object","title":""}'.length),
});
/** Levels of JSON, the root counted. */
const deep = (levels: number): Json => ({ type: "object", not: nest(levels - 2, { type: "string" }, "not") });
const chain = (levels: number, last: Json, pair: (next: Json) => Json): Json => {
  const defs = Array.from({ length: levels }, (_, n) => [`d${n}`, pair({ $ref: `#/$defs/d${n + 1}` })]);
  return { type: "object", $ref: "#/$defs/d0", $defs: { ...Object.fromEntries(defs), [`d${levels}`]: last } };
};
const branches = (levels: number): Json =>
  levels === 0 ? { const: 1 } : { anyOf: [branches(levels - 1), branches(levels - 1)] };

/** Attacks whose evaluation takes seconds, or for ever. */
export const slow: readonly Attack[] = [
  attack("a polynomial pattern", object({ a: { pattern: "^(.*)(.*)(.*)x$" } }), { a: "a".repeat(3_000) }, 400),
  attack("an exponential pattern", object({ a: { pattern: "^(a+)+$" } }), { a: `${"a".repeat(5_000)}!` }, 400),
  attack("an ambiguous pattern", object({ a: { pattern: "^(?:a|a)*$" } }), { a: `${"a".repeat(50)}!` }, 400),
  attack(
    "patternProperties",
    { type: "object", patternProperties: { "^(a+)+$": true } },
    { [`${"a".repeat(60)}!`]: 1 },
    400,
  ),
  attack(
    "propertyNames",
    { type: "object", propertyNames: { pattern: "^(\\w*)*$" } },
    { [`${"a".repeat(60)}!`]: 1 },
    400,
  ),
  attack(
    "pairs of $ref that double",
    chain(24, { type: "object" }, (next) => ({ allOf: [next, next] })),
    {},
    400,
  ),
  attack(
    "pairs of $ref that double and fail",
    chain(24, { type: "string" }, (next) => ({ oneOf: [next, next] })),
    {},
    400,
  ),
  attack("nested $id", { type: "object", not: ids(28) }, {}, 400),
  attack(
    "uniqueItems",
    object({ a: { uniqueItems: true } }),
    { a: Array.from({ length: 8_000 }, (_, n) => ({ n })) },
    400,
  ),
];
function ids(levels: number): Json {
  return levels === 0 ? {} : { $id: `http://localhost/${levels}`, not: ids(levels - 1) };
}

/** The target of remote `$ref`s. It must never receive a request. */
export const canary = createHttp((_, response) => {
  fetched++;
  response.end('{"type":"object"}');
});
export let fetched = 0;

const wrongTypes: readonly [string, unknown][] = [
  ["type", 5],
  ["type", "strin"],
  ["type", []],
  ["properties", []],
  ["properties", { a: 5 }],
  ["required", "x"],
  ["required", [1]],
  ["items", 3],
  ["pattern", 3],
  ["pattern", "("],
  ["minimum", "1"],
  ["enum", {}],
  ["additionalProperties", "no"],
  ["anyOf", {}],
  ["allOf", 5],
  ["oneOf", [5]],
  ["not", 3],
  ["$ref", 5],
  ["$defs", []],
  ["minLength", -1],
  ["multipleOf", 0],
  ["uniqueItems", "yes"],
  ["patternProperties", { "(": {} }],
  ["format", 5],
  ["dependentRequired", { a: "b" }],
  ["$id", 5],
  ["maxItems", 1.5],
  ["prefixItems", {}],
];

const pollution = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}';
const proto =
  '{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"number"},"toString":true,"hasOwnProperty":true},"required":["__proto__","constructor","toString","hasOwnProperty"]}';
const tree = object({ n: { type: "number" }, children: { type: "array", items: { $ref: "#" } } });

/** Attacks that are answered at once. Where JSON Schema and docs/reference.md leave no choice, there is one verdict. */
export function quickAttacks(): Attack[] {
  const { port } = canary.address() as AddressInfo;
  const remote = [
    `http://127.0.0.1:${port}/a.json`,
    "file:///etc/passwd",
    "other.json",
    `//127.0.0.1:${port}/`,
    "urn:x:y",
  ];
  const nowhere = [
    "#/nothing",
    "#nothing",
    "#/__proto__",
    "#/constructor",
    "#/%zz",
    "#/properties/a/type",
    "https://github.com/cfworker",
  ];
  return [
    ...remote.map(($ref) => attack(`$ref ${$ref}`, object({ a: { $ref } }), { a: 1 }, 400)),
    ...nowhere.map(($ref) => attack(`$ref ${$ref}`, object({ a: { $ref } }), { a: 1 }, 400)),
    attack("a remote $id", { $id: `http://127.0.0.1:${port}/`, ...tree }, { children: [{ n: 1 }] }, 200),
    attack("a remote $schema", { $schema: `http://127.0.0.1:${port}/`, type: "object" }, {}, 200),
    attack(
      "a $ref to a foreign $id",
      { ...object({ a: { $ref: "#/x" } }), $id: `http://127.0.0.1:${port}/` },
      { a: 1 },
      400,
    ),
    attack("a broken $id", { type: "object", $id: "http://[" }, {}, 200, 400),
    attack("$id twice", object({ a: { $id: "x" }, b: { $id: "x" } }), {}, 200, 400),
    attack("a remote $dynamicRef", object({ a: { $dynamicRef: `http://127.0.0.1:${port}/` } }), { a: 1 }),
    attack("a remote $recursiveRef", object({ a: { $recursiveRef: `http://127.0.0.1:${port}/` } }), { a: 1 }),
    attack("$recursiveRef to itself", { type: "object", $recursiveRef: "#", $recursiveAnchor: true }, {}, 200, 400),
    attack("$ref to the root that consumes", tree, { n: 1, children: [{ children: [{ n: 2 }] }] }, 200),
    attack("$ref to the root, deep inside wrong", tree, { children: [{ children: [{ n: "2" }] }] }, 502),
    attack("$ref to itself", { type: "object", $ref: "#" }, {}, 400),
    attack("nothing but $ref to itself", { $ref: "#" }, {}, 400),
    attack("allOf itself", { type: "object", allOf: [{ $ref: "#" }] }, {}, 400),
    attack(
      "two that refer to each other",
      chain(1, { $ref: "#/$defs/d0" }, (next) => next),
      {},
      400,
    ),
    attack(
      "a chain of 30 $ref",
      chain(30, object({ a: { type: "string" } }), (next) => next),
      { a: 5 },
      502,
    ),
    attack(
      "a percent-encoded pointer",
      { ...object({ a: { $ref: "#/$defs/a%20b" } }), $defs: { "a b": { type: "string" } } },
      { a: 5 },
      502,
    ),
    attack(
      "a percent-encoded $",
      { ...object({ a: { $ref: "#/%24defs/b" } }), $defs: { b: { type: "string" } } },
      { a: 5 },
      400,
      502,
    ),
    attack(
      "an escaped pointer",
      { ...object({ a: { $ref: "#/$defs/a~1b~0" } }), $defs: { "a/b~": { type: "string" } } },
      { a: "5" },
      200,
    ),
    attack(
      "$anchor",
      { ...object({ a: { $ref: "#b" } }), $defs: { b: { $anchor: "b", type: "string" } } },
      { a: 5 },
      502,
    ),
    ...wrongTypes.map(([key, value]) =>
      attack(`${key}: ${JSON.stringify(value)}`, { type: "object", [key]: value }, {}, 400),
    ),
    ...wrongTypes
      .slice(0, 4)
      .map(([key, value]) =>
        attack(`inner ${key}: ${JSON.stringify(value)}`, object({ a: { [key]: value } }), {}, 400),
      ),
    ...["true", "false", "null", "5", '"x"', "[]"].map((schema) => attack(`schema ${schema}`, schema, {}, 400)),
    attack("no type at the root", {}, {}, 400),
    attack("a string at the root", { type: "string" }, '"x"', 400),
    attack("a union at the root", { type: ["object", "string"] }, {}, 400),
    attack("anyOf at the root", { anyOf: [{ type: "object" }, { type: "string" }] }, {}, 400),
    attack("a root that leads to a string", { $ref: "#/$defs/a", $defs: { a: { type: "string" } } }, '"x"', 400),
    attack("a root that leads to an object", { $ref: "#/$defs/a", $defs: { a: { type: "object" } } }, { a: 1 }, 200),
    attack("64 KiB less a byte", sized(65_535), {}, 200),
    attack("64 KiB", sized(65_536), {}, 200),
    attack("64 KiB and a byte", sized(65_537), {}, 400),
    attack("66 kB in 22,000 characters", { type: "object", title: "€".repeat(22_000) }, {}, 400),
    attack("1 MB", sized(1_000_000), {}, 400),
    attack("32 levels", deep(32), {}, 200, 502),
    attack("33 levels", deep(33), {}, 400),
    attack("5,000 levels", `{"type":"object","not":${'{"not":'.repeat(5_000)}{}${"}".repeat(5_000)}}`, {}, 400),
    attack("__proto__ and its like, missing", proto, "{}", 502),
    attack(
      "__proto__ and its like, wrong",
      proto,
      '{"__proto__":1,"constructor":1,"toString":1,"hasOwnProperty":1}',
      502,
    ),
    attack(
      "__proto__ and its like, there",
      proto,
      '{"__proto__":"x","constructor":1,"toString":1,"hasOwnProperty":1}',
      200,
    ),
    attack("pollution", `{"type":"object",${pollution.slice(1)}`, pollution, 200),
    attack("pollution below", `{"type":"object","properties":${pollution},"$defs":${pollution}}`, pollution),
    attack("const pollution", `{"type":"object","const":${pollution}}`, pollution, 200),
    attack("__absolute_ref__", object({ a: { $ref: "#", __absolute_ref__: { toString: 1 } } }), { a: 1 }),
    attack("__absolute_ref__ that leads out", object({ a: { $ref: "#", __absolute_ref__: "file:///etc/passwd" } }), {
      a: {},
    }),
    attack("__absolute_uri__", { type: "object", __absolute_uri__: 5, __absolute_recursive_ref__: "x" }, {}),
    attack(
      "a thenable",
      '{"type":"object","properties":{"then":{"type":"number"}},"if":{},"then":{}}',
      '{"then":1,"catch":1,"finally":1}',
      200,
    ),
    attack("toJSON", object({ toJSON: { type: "string" } }), { toJSON: "x", valueOf: 1, length: -1 }, 200),
    attack("a format called __proto__", object({ a: { format: "__proto__" } }), { a: "x" }),
    attack("an enum of 8,000", object({ a: { enum: Array.from({ length: 8_000 }, (_, n) => n) } }), { a: -1 }, 502),
    attack("a const of 60 kB", object({ a: { const: "x".repeat(60_000) } }), { a: "x" }, 502),
    attack("anyOf in anyOf", object({ a: branches(10) }), { a: 2 }, 502),
    attack(
      "anyOf of 2,000",
      object({ a: { anyOf: Array.from({ length: 2_000 }, (_, n) => ({ const: n })) } }),
      { a: -1 },
      502,
    ),
    attack("not: {}", { type: "object", not: {} }, {}, 502),
    attack("a contradiction", { type: "object", minProperties: 2, maxProperties: 1 }, { a: 1 }, 502),
    attack("false inside", object({ a: false }), { a: 1 }, 502),
    attack("numbers beyond numbers", '{"type":"object","minProperties":1e400,"multipleOf":1e-400}', {}, 400, 502),
    attack("multipleOf 1e-300", object({ a: { multipleOf: 1e-300 } }), { a: 1e300 }, 200, 502),
    attack("keys in Unicode", object({ "ключ 🔑": { type: "string" } }), { "ключ 🔑": 5 }, 502),
    attack("lone surrogates in keys", object({ "\ud800": { type: "string" } }), '{"\\ud800":5}', 400, 502),
    attack("no JSON", { type: "object" }, "{", 502),
    attack("a key of 60 kB", object({ ["x".repeat(60_000)]: { type: "string" } }), { ["x".repeat(60_000)]: 1 }, 502),
    ...[
      attack("to echo: endless items", object({ a: { type: "array", minItems: 1e9 } }, { required: ["a"] }), "x", 502),
      attack(
        "to echo: an endless text",
        object({ a: { type: "string", minLength: 1e9 } }, { required: ["a"] }),
        "x",
        502,
      ),
      attack(
        "to echo: doubling",
        chain(24, { type: "object" }, (next) => object({ a: next, b: next })),
        "x",
      ),
      attack("to echo: itself", { type: "object", properties: { a: { $ref: "#" } }, required: ["a"] }, "x", 502),
    ].map((one) => ({ ...one, agent: "echo" })),
  ];
}

export const honest: readonly Attack[] = [
  attack("honest object", object({ a: { type: "string", pattern: "^b+$" } }, { required: ["a"] }), { a: "bbb" }, 200),
  attack(
    "honest array",
    { type: "array", items: { $ref: "#/$defs/n" }, $defs: { n: { type: "number" } } },
    { elements: [1, 2] },
    200,
  ),
];
