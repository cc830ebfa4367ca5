import { expect } from "vitest";

export const operationsOf = (doc: any): any[] =>
  Object.values(doc.paths).flatMap((methods) => Object.values(methods as object));

export const resolve = (doc: any, ref: string): any =>
  ref
    .split("/")
    .slice(1)
    .map((key) => decodeURIComponent(key).replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((value, key) => value?.[key], doc);

/** All references of the document; each of them leads somewhere. */
export function expectResolved(doc: any): string[] {
  const refs: string[] = [];
  JSON.stringify(doc, (key, value) => {
    if (key === "const" || key === "example") return undefined; // data
    if (key === "$ref" && typeof value === "string") refs.push(value);
    return value;
  });
  for (const ref of refs) expect(resolve(doc, ref), ref).toBeTypeOf("object");
  return refs;
}

/** What OpenAPI 3.1 demands beyond JSON Schema. */
export function expectValid(doc: any): void {
  const ids = operationsOf(doc).map(({ operationId }) => operationId);
  expectUnique(ids);
  for (const kind of ["schemas", "responses"]) {
    const names = Object.keys(doc.components[kind]);
    for (const name of names) expect(name).toMatch(/^[A-Z][A-Za-z0-9]*$/);
    expectUnique(names);
  }
  const shapes = Object.keys(doc.paths).map((path) => path.replace(/\{\w+\}/g, "{}"));
  expect(new Set(shapes).size).toBe(shapes.length);
  for (const [path, methods] of Object.entries<any>(doc.paths)) {
    expect(path).toMatch(/^\//);
    const wanted = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    for (const { parameters, responses, tags, summary, requestBody } of Object.values<any>(methods)) {
      const declared = parameters.filter((parameter: any) => parameter.in === "path");
      expect(declared.map(({ name }: any) => name)).toEqual(wanted);
      expect([typeof summary, tags.length]).toEqual(["string", 1]);
      expect(Object.keys(responses).length).toBeGreaterThan(0);
      for (const [status, response] of Object.entries<any>(responses)) {
        expect(status).toMatch(/^([1-5]\d\d|default)$/);
        const { description } = response.$ref ? resolve(doc, response.$ref) : response;
        expect(description).toBeTypeOf("string");
      }
      if (requestBody) expect(Object.keys(requestBody.content)).toEqual(["application/json"]);
    }
  }
}

/** Names are unique in every style of identifier: `a.b`, `a-b` and `aB` are one name. */
function expectUnique(names: string[]): void {
  const plain = names.map((name) => name.replace(/[^A-Za-z0-9]/g, "").toLowerCase());
  expect(plain.filter((name, index) => plain.indexOf(name) !== index)).toEqual([]);
}
