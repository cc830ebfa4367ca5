import { readdirSync, readFileSync } from "node:fs";
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

it("the index of a page links every section of it, in order", () => {
  const pages = readdirSync("docs").filter((file) => file.endsWith(".md"));
  const indexed = pages.flatMap((file) => {
    const text = readFileSync(join("docs", file), "utf8").replace(/^```[^]*?^```/gm, "");
    const [head, ...sections] = text.split(/^## /m);
    const links = [...head!.matchAll(/\[([^\]]+)\]\((#[^)]+)\)/g)].map(([, title, target]) => ({ title, target }));
    const titles = sections.map((section) => section.split("\n", 1)[0]!);
    return links.length < 3
      ? []
      : { file, links, sections: titles.map((title) => ({ title, target: toAnchor(title) })) };
  });
  expect(indexed.map(({ file }) => file)).toContain("workflows.md");
  for (const { file, links, sections } of indexed) expect(links, file).toEqual(sections);
});

/** The anchor that GitHub gives a title. */
const toAnchor = (title: string): string =>
  `#${title
    .toLowerCase()
    .replace(/[^\w\- ]/g, "")
    .replaceAll(" ", "-")}`;
