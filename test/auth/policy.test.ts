import fc from "fast-check";
import { addRoute, createRouter, findRoute } from "rou3";
import { describe, expect, it } from "vitest";
import { readEntry } from "../../src/auth/entry.ts";
import { createPolicy } from "../../src/auth/policy.ts";
import { bySize } from "../harness/size.ts";

const row = { type: "route", access: "protected" } as const;
const socket = { type: "socket", access: "public" } as const;

describe("an entry of publicRoutes or protect", () => {
  const opens = (entry: string, method: string, path: string) =>
    createPolicy({ defaultPrivate: true, publicRoutes: [entry] }).decide({ method, path, route: row }).access ===
    "public";

  it.each([
    ["GET /x", ["/x", "/x/"], ["/", "/xy", "/x/y", "/X", "//x"]],
    ["GET /x/*", ["/x", "/x/", "/x/y", "/x/y/z"], ["/", "/xy", "/xy/z"]],
    ["GET /x*", ["/x", "/xy", "/xy/z", "/x/y"], ["/", "/y/x"]],
    ["GET /*", ["/", "/x", "/x/y"], []],
    ["GET /", ["/"], ["/x"]],
    ["GET /a/:id", ["/a/b", "/a/b/"], ["/a", "/a/b/c"]],
    ["GET /%7Eadmin/x", ["/~admin/x"], ["/admin/x"]],
    ["GET /caf%c3%a9", ["/caf%C3%A9"], []],
    ["GET /a/:id/*", ["/a/b", "/a/b/c", "/a/b/c/d"], ["/a"]],
  ])("covers by the entry %s the paths %j and not %j", (entry, covered, others) => {
    expect(covered.filter((path) => !opens(entry, "GET", path))).toEqual([]);
    expect(others.filter((path) => opens(entry, "GET", path))).toEqual([]);
    expect(covered.filter((path) => opens(entry, "POST", path))).toEqual([]);
    expect(covered.filter((path) => !opens(entry, "HEAD", path))).toEqual([]);
  });

  it("refuses an entry that is not a method, a space and a path", () => {
    const entries = "/x,GET,GET x,get /x,HEAD /x,GET  /x, GET /x,GET /x y,* /x,GTE /x,all /x,,GET /:a/:a".split(",");
    expect([...entries, 3, null].filter((entry) => readEntry(entry) !== undefined)).toEqual([]);
  });
});

describe("the policy", () => {
  const access = (options: object, asked: object) =>
    createPolicy(options).decide({ method: "GET", path: "/x", route: undefined, ...asked }).access;

  it("applies publicRoutes before protect, and protect before the table of routes", () => {
    expect(access({ protect: ["GET /x"] }, {})).toBe("protected");
    expect(access({ protect: ["GET /x"], publicRoutes: ["GET /x"] }, {})).toBe("public");
    expect(access({ publicRoutes: ["GET /x"], defaultPrivate: true }, { row })).toBe("public");
    expect(access({ protect: ["GET /x"] }, { route: socket, isUpgrade: true })).toBe("protected");
  });
  it("leaves WebSockets open in both modes, unless webSockets is set", () => {
    const asked = { route: socket, isUpgrade: true };
    expect([{}, { defaultPrivate: true }].map((options) => access(options, asked))).toEqual(["public", "public"]);
    expect(access({ webSockets: true }, asked)).toBe("protected");
    expect(access({ webSockets: true }, { route: socket })).toBe("public"); // a plain GET on it is a 426
    expect(access({ webSockets: true, publicRoutes: ["GET /x"] }, asked)).toBe("public");
  });
  it("covers every method by an entry for ALL", () => {
    for (const method of ["GET", "DELETE", "PROPFIND", "QUERY"])
      expect(access({ protect: ["ALL /x"] }, { method })).toBe("protected");
  });
  it.each([
    "/files//secret/x",
    "/files/secret%2Fx",
    "/files/%73ecret/x",
    "/files/secret%252fx",
    "/files/a%2f..%2fsecret/x",
    "/files/secret%5Cx",
    "/files/caf%c3%a9/x",
  ])("closes a path that a wildcard handler may read as a protected one: %s", (path) => {
    const protect = ["GET /files/secret/*", "GET /files/café/*"];
    expect(access({ protect }, { path })).toBe("protected");
    const publicRoutes = ["GET /files/*"];
    expect(access({ protect, publicRoutes }, { path })).toBe("public");
  });
  it("opens a path only if every reading of it is open", () => {
    const options = { defaultPrivate: true, publicRoutes: ["GET /pub/*"] };
    const open = ["/pub/a", "/pub//a", "/pub/a%2fb", "/pub/%2e%2e/pub/a"];
    const closed = ["/pub/%2e%2e%2fx", "/pub/..%5cx", "/pub%2f../x", "//x/pub/a"];
    expect(open.map((path) => access(options, { path }))).toEqual(open.map(() => "public"));
    expect(closed.map((path) => access(options, { path }))).toEqual(closed.map(() => "protected"));
  });
  it("reads a method in lowercase as the one in uppercase", () => {
    expect(access({ protect: ["PATCH /x"] }, { method: "patch" })).toBe("protected");
  });
});

it("describes a route as it decides about each of its paths, except for the entries that it names", () => {
  const segment = fc.constantFrom("a", "b", ":id", "*");
  const pattern = fc.array(segment, { minLength: 1, maxLength: 4 }).map(
    (parts) =>
      `/${parts
        .filter((part, at) => part !== "*" || at === parts.length - 1)
        .map((part, at) => (part === ":id" ? `:p${at}` : part))
        .join("/")}`,
  );
  const entry = fc.tuple(fc.constantFrom("GET", "POST", "ALL"), pattern).map((parts) => parts.join(" "));
  const entries = fc.array(entry, { maxLength: 4 });
  const path = fc
    .array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 5 })
    .map((parts) => `/${parts.join("/")}`);
  let met = 0;
  const claim = fc.property(
    entries,
    entries,
    fc.boolean(),
    fc.constantFrom("GET", "POST", ""),
    pattern,
    fc.array(path, { minLength: 20, maxLength: 20 }),
    fc.constantFrom(row, undefined),
    (publicRoutes, protect, defaultPrivate, method, route, paths, asked) => {
      const policy = createPolicy({ publicRoutes, protect, defaultPrivate });
      const said = policy.describe({ method, path: route, route: asked });
      for (const one of paths.filter((candidate) => matches(route, candidate))) {
        for (const used of method === "" ? ["GET", "POST", "PUT"] : [method]) {
          met++;
          const { access } = policy.decide({ method: used, path: one, route: asked });
          const isNamed = said.except.some(
            (text) =>
              /^(\S+)/.exec(text)!.some((name) => name === used || name === "ALL") && matches(text.split(" ")[1]!, one),
          );
          if (access !== said.access) expect([used, one, isNamed]).toEqual([used, one, true]);
        }
      }
    },
  );
  fc.assert(claim, { numRuns: bySize(1_000, 20_000) });
  expect(met).toBeGreaterThan(500);
});

function matches(pattern: string, path: string): boolean {
  const router = createRouter<true>();
  addRoute(router, "", pattern, true);
  return findRoute(router, "", path) !== undefined;
}
