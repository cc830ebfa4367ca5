import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import * as areas from "../mutations/index.ts";
import { splitSuite, type Suite } from "../mutations/mutation.ts";

const map = readFileSync("test/README.md", "utf8");
const rows = [...map.matchAll(/^\| `(\w+)` \| [\d,]+ \| .* \| (.*) \|$/gm)];

it("test/README.md describes every folder of the tests, and no other", () => {
  const folders = readdirSync("test", { withFileTypes: true }).filter((entry) => entry.isDirectory());
  expect(rows.map(([, folder]) => folder).toSorted()).toEqual(folders.map(({ name }) => name).toSorted());
});

it("test/README.md names only files that exist", () => {
  const [, named] = map.split("## How a test is written");
  const paths = [...named!.matchAll(/`([\w-]+\/[\w/.-]+)`/g)].map(([, path]) => path!);
  expect(paths.length).toBeGreaterThan(50);
  const isThere = (path: string): boolean => existsSync(`test/${path}`) || existsSync(path);
  expect(paths.filter((path) => !isThere(path))).toEqual([]);
});

it("test/README.md names faults that the folder must notice", () => {
  const faults = Object.values(areas).flat();
  const unknown = rows.filter(([, folder, breaks]) => {
    const isKnown = faults.some((fault) => fault.breaks === breaks && fault.suite.startsWith(`test/${folder}/`));
    return breaks !== "" && !isKnown;
  });
  expect(unknown.map(([row]) => row)).toEqual([]);
});

it("test/mutations finds the line of each fault once, and its suites", () => {
  const count = ({ file, find }: { file: string; find: string }): number =>
    existsSync(file) ? readFileSync(file, "utf8").split(find).length - 1 : 0;
  const faults = Object.values(areas).flat();
  const isLost = (suite: Suite): boolean => {
    const { path, words = "" } = splitSuite(suite);
    return !existsSync(path) || (words !== "" && !readFileSync(path, "utf8").includes(words));
  };
  const lost = faults.filter(
    (fault) => count(fault) !== 1 || [fault.suite, ...Object.values(fault.backends ?? {})].some(isLost),
  );
  expect(lost.map(({ file, breaks }) => `${file}: ${breaks}`)).toEqual([]);
});

it("each rule of both backends has a unit test, and a fault that a suite of each backend notices", () => {
  const rules = readdirSync("src/engine/rules").map((file) => file.replace(/\.ts$/, ""));
  expect(rules).toContain("transitions");
  const isTested = (rule: string): boolean => {
    const suite = `test/engine/rules/${rule}.test.ts`;
    const hasFault = areas.rules.some(
      (fault) => fault.file === `src/engine/rules/${rule}.ts` && fault.suite === suite && fault.backends,
    );
    return existsSync(suite) && hasFault;
  };
  expect(rules.filter((rule) => !isTested(rule))).toEqual([]);
});
