import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";

const files = globSync("src/console/page/**/*.{ts,tsx}");

it("the console's page never makes markup or code of a text", () => {
  expect(files.length).toBeGreaterThan(20);
  const forbidden = /innerHTML|outerHTML|insertAdjacentHTML|srcdoc|document\.write|javascript:|\beval\(|new Function/;
  expect(files.filter((file) => forbidden.test(readFileSync(file, "utf8")))).toEqual([]);
});

it("the console's page imports only its own files and bundled packages", () => {
  const packages = new Set(["preact", "preact/hooks", "@preact/signals", "ai"]);
  const wrong = files.flatMap((file) => {
    const targets = [...readFileSync(file, "utf8").matchAll(/from "([^"]+)"/g)].map(([, target]) => target!);
    return targets.filter((target) => {
      if (!target.startsWith(".")) return !packages.has(target);
      return relative("src/console/page", join(dirname(file), target)).startsWith("..");
    });
  });
  expect(wrong).toEqual([]);
});

it("the console's page is at most 150 KB, compressed", () => {
  const sizes = ["console.js", "console.css"].map((name) => gzipSync(readFileSync(`dist/console/${name}`)).length);
  const total = sizes[0]! + sizes[1]! + 2_000; // the document
  console.log(`The console is ${(total / 1_000).toFixed(1)} KB, compressed`);
  expect(total).toBeLessThan(150_000);
});
