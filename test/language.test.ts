import { globSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

// A smoke detector for sentences that must be read twice. Comments are written like those of h3, Hono or the Restate SDK:
// they begin with a noun or a verb, and their subject is a thing in the code.
const rules: Record<string, { readonly pattern: RegExp; readonly most: number }> = {
  "begins with What, Whether, How, Who, Whoever or Where": {
    pattern: /^(What|Whether|How|Who|Whoever|Whose|Where)\b/,
    most: 0.02,
  },
  "speaks of somebody, nobody, whoever, anybody or everybody": {
    pattern: /\b(somebody|nobody|whoever|anybody|everybody)\b/i,
    most: 0.01,
  },
  'says "goes on", "stands", "of its own" or "is no"': {
    pattern: /\b(goes on|go on|stands|stand in|of (its|their) own|is no [a-z])/,
    most: 0.01,
  },
};

describe("comments in src are plain English", () => {
  const comments = globSync("src/**/*.ts").flatMap(commentsOf);

  it("finds the comments", () => {
    expect(comments.length).toBeGreaterThan(1_000);
    expect(commentsOf("test/language.test.ts").some(({ text }) => text.startsWith("A smoke detector"))).toBe(true);
  });

  it.each(Object.entries(rules))("at most a few: %s", (name, { pattern, most }) => {
    const found = comments.filter(({ text }) => pattern.test(text));
    const list = found.map(({ place, text }) => `${place}: ${text}`).join("\n");
    console.log(
      `${name}: ${found.length} of ${comments.length} (${((100 * found.length) / comments.length).toFixed(2)} %)`,
    );
    expect(found.length / comments.length, list).toBeLessThanOrEqual(most);
  });
});

interface Comment {
  readonly place: string;
  readonly text: string;
}

/** The comments of a file; lines that follow each other are one. */
function commentsOf(file: string): Comment[] {
  const source = readFileSync(file, "utf8");
  const found = source.matchAll(/\/\*\*?([\s\S]*?)\*\/|(?:(?<=^|[\s;{(,])\/\/ .*(?:\n\s*(?=\/\/ ))?)+/gm);
  return [...found].map(({ 0: whole, 1: block, index }) => {
    const lines = (block ?? whole).split("\n").map((line) => line.replace(/^\s*(\*|\/\/) ?/, ""));
    const line = source.slice(0, index).split("\n").length;
    return { place: `${file}:${line}`, text: lines.join(" ").replace(/\s+/g, " ").trim() };
  });
}
