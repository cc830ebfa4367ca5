import { join } from "node:path";
import { expect, it } from "vitest";
import { keptMaps, maxKeptMaps, toSource } from "../../src/config/source-map.ts";
import { createProject } from "../harness/project.ts";

// As jiti compiles it: `const one = 1;throw new Error("late");`
const text = 'const one: number = 1 as number; throw new Error("late " + one);\n';

it("finds the column in the source of compiled code, and keeps the maps of a few files only", () => {
  const names = Array.from({ length: maxKeptMaps + 3 }, (_, n) => `part-${n}.ts`);
  const folder = createProject(Object.fromEntries(names.map((name) => [name, text])));
  for (const name of names) {
    const place = { file: join(folder, name), line: 1, column: 34 };
    expect(toSource(place, folder)).toEqual({ ...place, column: text.indexOf("new Error") + 1 });
  }
  expect(keptMaps.size).toBe(maxKeptMaps);
});

it("leaves a place alone if its file cannot be read, and if it has no column", () => {
  for (const place of [
    { file: "/no/such/file.ts", line: 3, column: 4 },
    { file: "/no/such/file.ts", line: 3 },
  ])
    expect(toSource(place, "/no")).toEqual(place);
});
