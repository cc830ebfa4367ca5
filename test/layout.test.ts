import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { parseSync, Visitor } from "rolldown/utils";
import { expect, it } from "vitest";

// Each room, and the rooms that it may import from; type imports count. A room that is not here may not exist.
const kit = ["core", "http", "sockets"];
const nouns = ["workflows", "agents", "auth", "observability", "pages", "console"];
const all = [...nouns, "schedules"];
const floors: Record<string, string[]> = {
  core: [],
  http: ["core"],
  sockets: ["core", "http"],
  engine: ["core"],
  "backends/embedded": ["core", "engine"],
  "backends/restate": ["core", "engine"],
  ...Object.fromEntries(nouns.map((noun) => [noun, [...kit, "engine"]])),
  "console/page": [], // runs in the browser
  schedules: [...kit, "engine", "auth", "workflows"],
  config: [...kit, "engine", "backends/embedded", ...all],
  server: [...kit, "engine", "backends/embedded", ...all, "config"],
  dev: [...kit, "engine", ...all, "config", "server"],
  "index.ts": [...kit, "engine", "backends/embedded", ...all, "config", "server"],
  "models.ts": ["agents"],
  testing: [...kit, "engine", "backends/embedded", ...all, "config", "server"],
  "testing.ts": ["core", "observability", "testing"],
  cli: [
    ...kit,
    "engine",
    "backends/embedded",
    "backends/restate",
    ...all,
    "config",
    "server",
    "dev",
    "index.ts",
    "models.ts",
  ],
};

const files = globSync("src/**/*.{ts,tsx}");
const imports = new Map(files.map((file) => [file, importsOf(file)]));
const code = readCode();

it("imports only from lower folders of src, never up or sideways", () => {
  const wrong: string[] = [];
  for (const [file, targets] of imports) {
    const room = roomOf(file);
    for (const target of targets) {
      const other = roomOf(target);
      if (room !== other && !floors[room]!.includes(other)) wrong.push(`${file} imports ${target}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(imports.size).toBeGreaterThan(30);
});

it("has no import cycle in src", () => {
  const done = new Set<string>();
  function visit(file: string, path: string[]): void {
    if (path.includes(file)) throw new Error(`cycle: ${[...path.slice(path.indexOf(file)), file].join(" → ")}`);
    if (done.has(file)) return;
    for (const target of imports.get(file) ?? []) visit(target, [...path, file]);
    done.add(file);
  }
  for (const file of files) visit(file, []);
});

it("keeps h3 out of the engine and node:sqlite out of everything but its backend", () => {
  const uses = (file: string, name: string) => readFileSync(file, "utf8").includes(`"${name}"`);
  expect(files.filter((file) => file.startsWith("src/engine") && uses(file, "h3"))).toEqual([]);
  expect(files.filter((file) => !file.startsWith("src/backends/embedded") && uses(file, "node:sqlite"))).toEqual([]);
});

it("knows no step type by its name in the engine, the command line and the console", () => {
  const names = /["']and(Then|Agent|Map|Tap|When|Branch|All|Race|ForEach|Do|Sleep|WaitFor|Workflow)\w*["']/;
  const without = files.filter((file) => /^src\/(engine|cli|console)\//.test(file));
  expect(without.filter((file) => names.test(readFileSync(file, "utf8")))).toEqual([]);
});

it("names no backend in the engine and the agents", () => {
  const names = /restate|sqlite|embedded/i;
  const above = files.filter((file) => /^src\/(engine|agents)\//.test(file));
  expect(above.filter((file) => names.test(readFileSync(file, "utf8")))).toEqual([]);
});

it("keeps files of src at 300 lines, and folders at 16 files", () => {
  const lengths = files.map((file) => ({ file, lines: readFileSync(file, "utf8").split("\n").length - 1 }));
  const long = lengths.filter(({ lines }) => lines > 300).map(({ file, lines }) => `${file} has ${lines} lines`);
  const folders = Object.entries(Object.groupBy(files, (file) => dirname(file)));
  const full = folders.filter(([, inside]) => inside!.length > 16);
  expect([...long, ...full.map(([folder, inside]) => `${folder} has ${inside!.length} files`)]).toEqual([]);
});

// Functions that are tables: they read from top to bottom without a branch. The handlers in them are checked by themselves.
const tables: Record<string, string> = {
  approvalRoutes: "a list of routes",
  callRoutes: "a list of routes",
  commandRoutes: "a list of routes",
  conversationRoutes: "a list of routes",
  createConversation: "a list of handlers of a service on Restate",
  createInfo: "a list of handlers of a service on Restate",
  createMailbox: "a list of handlers of a service on Restate",
  createRegister: "a list of handlers of a service on Restate",
  executionsRoutes: "a list of routes",
  pageRoutes: "a list of routes",
  scheduleRoutes: "a list of routes",
};

it("keeps functions and components of src at 60 lines, except tables", () => {
  const long = code.functions.filter(({ lines }) => lines > 60).toSorted((a, b) => b.lines - a.lines);
  const wrong = long.filter(({ name }) => !Object.hasOwn(tables, name));
  const needless = Object.keys(tables).filter((table) => !long.some(({ name }) => name === table));
  expect([
    ...wrong.map(({ place, name, lines }) => `${place} ${name} has ${lines} lines`),
    ...needless.map((table) => `${table} has at most 60 lines: remove its exception`),
  ]).toEqual([]);
  expect(code.functions.length).toBeGreaterThan(3_000);
});

it("has any at most 10 times in src", () => {
  expect(code.any.length, code.any.join("\n")).toBeLessThanOrEqual(10);
});

it("has a non-null ! at most 150 times in src", () => {
  const byFile = Object.entries(Object.groupBy(code.nonNull, (place) => place.split(":")[0]!));
  const counts = byFile
    .toSorted(([, a], [, b]) => b!.length - a!.length)
    .map(([file, own]) => `${file}: ${own!.length}`);
  expect(code.nonNull.length, counts.join("\n")).toBeLessThanOrEqual(150);
});

it("gives each invariant of the engine and its backends a label of its own", () => {
  const own = files.filter((file) => /^src\/(engine|backends)\//.test(file));
  const labels = own.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/^ \* ([A-Z]+\d+)[. ]/gm)].map(([, label]) => ({ label: label!, file })),
  );
  expect(labels.length).toBeGreaterThan(80);
  const shared = Object.entries(Object.groupBy(labels, ({ label }) => label)).filter(
    ([, several]) => several!.length > 1,
  );
  expect(shared).toEqual([]);
});

it("keeps effects out of the interpreter: no logger, tracer, timer or attempt, no clock, nothing async", () => {
  const walk = files.filter((file) => file.startsWith("src/engine/walk/"));
  expect(walk).toContain("src/engine/walk/interpreter.ts");
  for (const file of walk) {
    const source = readFileSync(file, "utf8").replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");
    const targets = [...source.matchAll(/from "([^"]+)"/g)].map(([, target]) => target!);
    expect(
      targets.filter((target) => /log|trace|scope|timers|attempt|^node:|runs\//.test(target)),
      file,
    ).toEqual([]);
    expect(
      source.match(/\b(Date|Promise|async|await|setTimeout|setImmediate|console|process|crypto|Math\.random)\b/g),
    ).toBe(null);
  }
  // What it imports as values, directly and indirectly, is as pure.
  const values = new Set<string>();
  function visit(file: string): void {
    if (values.has(file)) return;
    values.add(file);
    const source = readFileSync(file, "utf8").replace(/import type [^;]+;/g, "");
    for (const [, target] of source.matchAll(/from "(\.[^"]+)"/g)) visit(relative(".", join(dirname(file), target!)));
  }
  visit("src/engine/walk/interpreter.ts");
  expect([...values].toSorted()).toEqual([
    "src/core/cut.ts",
    "src/core/error.ts",
    "src/core/iso-time.ts",
    "src/engine/definition/code-table.ts",
    "src/engine/definition/step-traits.ts",
    "src/engine/walk/entries.ts",
    "src/engine/walk/fibers.ts",
    "src/engine/walk/interpreter.ts",
    "src/engine/walk/journal-keys.ts",
    "src/engine/walk/pending.ts",
    "src/engine/walk/value.ts",
  ]);
});

it("lists every folder of src in AGENTS.md, in 9 KB and on lines of at most 130 characters", () => {
  const guide = readFileSync("AGENTS.md", "utf8");
  const table = guide.slice(guide.indexOf("| folder |"), guide.indexOf("The nouns ("));
  const listed = [...table.matchAll(/^\| (`[^|]+) \|/gm)].flatMap(([, names]) =>
    names!.split(", ").map((name) => name.slice(1, -1)),
  );
  const folders = Object.keys(floors).filter(
    (name) => !name.endsWith(".ts") && files.some((file) => file.startsWith(`src/${name}/`)),
  );
  expect(listed.toSorted()).toEqual(folders.toSorted());
  expect(guide.split("\n").filter((line) => line.length > 130)).toEqual([]);
  expect(Buffer.byteLength(guide)).toBeLessThan(9 * 1_024);
});

it("registers no hooks in helpers of tests that share a process: only the first file would have them", () => {
  const isolated = ["test/agents/provider/", "test/browser/"];
  const helpers = globSync("test/**/*.ts").filter(
    (file) => !file.endsWith(".test.ts") && !isolated.some((folder) => file.startsWith(folder)),
  );
  expect(helpers.length).toBeGreaterThan(30);
  const hook = /^(before|after)(Each|All)\(/m;
  expect(helpers.filter((file) => hook.test(readFileSync(file, "utf8")))).toEqual([]);
  expect(readFileSync("test/agents/provider/provider-suite.ts", "utf8")).toMatch(hook);
});

interface Spanned {
  readonly start: number;
  readonly end: number;
}

interface Named {
  readonly name?: string;
}

interface Code {
  readonly functions: { readonly place: string; readonly name: string; readonly lines: number }[];
  readonly any: string[];
  readonly nonNull: string[];
}

/** Functions of src with their lines, and the places of `any` and `!`. */
function readCode(): Code {
  const found: Code = { functions: [], any: [], nonNull: [] };
  for (const file of files) {
    const source = readFileSync(file, "utf8");
    const names = new Map<number, string>(); // by the start of the value
    const name = (key: Named | null, value: Spanned | null) => {
      if (key && value) names.set(value.start, key.name ?? "");
    };
    const lineOf = (at: number) => source.slice(0, at).split("\n").length;
    const add = ({ start, end }: Spanned, id: Named | null = null) => {
      const lines = source.slice(start, end).split("\n").length;
      found.functions.push({
        place: `${file}:${lineOf(start)}`,
        name: id?.name ?? names.get(start) ?? "(anonymous)",
        lines,
      });
    };
    const visitor = new Visitor({
      VariableDeclarator: ({ id, init }) => name(id as Named, init),
      MethodDefinition: ({ key, value }) => name(key as Named, value),
      PropertyDefinition: ({ key, value }) => name(key as Named, value),
      Property: ({ key, value }) => name(key as Named, value),
      FunctionDeclaration: (node) => add(node, node.id),
      FunctionExpression: (node) => add(node, node.id),
      ArrowFunctionExpression: (node) => add(node),
      TSAnyKeyword: ({ start }) => found.any.push(`${file}:${lineOf(start)}`),
      TSNonNullExpression: ({ start }) => found.nonNull.push(`${file}:${lineOf(start)}`),
    });
    visitor.visit(parseSync(file, source).program);
  }
  return found;
}

function importsOf(file: string): string[] {
  const source = readFileSync(file, "utf8");
  const specifiers = [...source.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map(([, specifier]) => specifier!);
  const targets = specifiers.map((specifier) => relative(".", join(dirname(file), specifier)));
  return targets.filter((target) => target.startsWith("src/"));
}

function roomOf(file: string): string {
  const [, first = "", second = ""] = file.split("/");
  const isInner = first === "backends" || (first === "console" && second === "page");
  const room = isInner ? `${first}/${second}` : first;
  if (!floors[room]) throw new Error(`${file} stands in no known room`);
  return room;
}
