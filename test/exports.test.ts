import { readFileSync } from "node:fs";
import { parseAst } from "rolldown/parseAst";
import { expect, it } from "vitest";

// Members whose types are the contract between engine and backend: users hand these objects on and never call them.
const internal: Record<string, readonly string[]> = { Step: ["run", "codes"], Backend: ["open", "inspect"] };

it.each(["dist/index.d.mts", "dist/models.d.mts", "dist/testing.d.mts", "dist/backends/restate.d.mts"])(
  "exports every type of ours that a public signature of %s mentions",
  (file) => expect(findHidden(readFileSync(file, "utf8"))).toEqual([]),
);

it("finds a type behind a parameter, a base type and a type argument, but no type parameter or internal member", () => {
  const hidden = (text: string) => findHidden(`interface Hidden {}\n${text}`);
  expect(hidden("declare function f(x: Hidden): void; export { f };")).toEqual(["f mentions Hidden"]);
  expect(hidden("interface A extends Hidden {} export { type A };")).toEqual(["A mentions Hidden"]);
  expect(hidden("type A = readonly Promise<Hidden>[]; export { type A };")).toEqual(["A mentions Hidden"]);
  expect(hidden("type A<Hidden> = Hidden[]; export { type A };")).toEqual([]);
  expect(hidden("interface Step { run(x: Hidden): void } export { type Step };")).toEqual([]);
});

interface Node {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** The mentions of types that a declaration file declares and does not export. */
function findHidden(text: string): string[] {
  const body = parseAst(text, { lang: "dts" }).body as unknown as Node[];
  const declared = new Map<string, Node>();
  const exported = new Set<string>();
  for (const node of body) {
    if (node.type === "ExportNamedDeclaration")
      for (const { local } of node["specifiers"] as Node[]) exported.add(nameOf(local)!);
    else if (nameOf(node["id"]) !== undefined) declared.set(nameOf(node["id"])!, node);
  }
  return [...exported].flatMap((name) => {
    const mentioned = mentionsOf(declared.get(name), new Set(), internal[name] ?? []);
    return [...new Set(mentioned)]
      .filter((other) => declared.has(other) && !exported.has(other))
      .map((other) => `${name} mentions ${other}`);
  });
}

/** The names of all types that a node refers to, without its own type parameters. */
function mentionsOf(value: unknown, bound: ReadonlySet<string>, skipped: readonly string[]): string[] {
  if (Array.isArray(value)) return value.flatMap((one) => mentionsOf(one, bound, skipped));
  if (!isNode(value)) return [];
  if (skipped.includes(nameOf(value["key"]) ?? "")) return [];
  const own = new Set([...bound, ...parametersOf(value)]);
  const name = nameOf(value["typeName"]) ?? nameOf(value["expression"]) ?? nameOf(value["superClass"]);
  const inner = Object.values(value).flatMap((one) => mentionsOf(one, own, skipped));
  return name === undefined || own.has(name) ? inner : [name, ...inner];
}

/** `T` of `<T>`, of `infer T` anywhere inside a condition, and of a mapped type. */
function parametersOf(node: Node): string[] {
  const listed = (node["typeParameters"] as { params?: Node[] } | null)?.params ?? [];
  const inferred = node.type === "TSConditionalType" ? findAll(node["extendsType"], "TSInferType") : [];
  const parameters = [...listed, ...inferred.map((one) => one["typeParameter"] as Node)];
  return parameters.map(({ name }) => nameOf(name)).filter((name) => name !== undefined);
}

function findAll(value: unknown, type: string): Node[] {
  if (Array.isArray(value)) return value.flatMap((one) => findAll(one, type));
  if (!isNode(value)) return [];
  return [...(value.type === type ? [value] : []), ...Object.values(value).flatMap((one) => findAll(one, type))];
}

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value;
const nameOf = (value: unknown): string | undefined =>
  isNode(value) && value.type === "Identifier" ? String(value["name"]) : undefined;
