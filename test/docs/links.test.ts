import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { npm } from "../harness/packed.ts";

it("every document of the package links only to files of the package", () => {
  const [{ files }] = JSON.parse(npm(["pack", "--ignore-scripts", "--dry-run", "--json"], "."));
  const packed: string[] = files.map(({ path }: { path: string }) => path);
  const documents = packed.filter((path) => path.endsWith(".md"));
  const links = documents.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, target]) => ({
      file,
      target: join(dirname(file), target!),
    })),
  );
  expect(links.length).toBeGreaterThan(20);
  expect(links.filter(({ target }) => !packed.includes(target))).toEqual([]);
});
