import { globSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

// A smoke detector for sentences that must be read twice. Comments, messages and documents are written like those of h3,
// Hono or the Restate SDK: they begin with a noun or a verb, and their subject is a thing in the code.
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

interface Sentence {
  readonly place: string;
  readonly text: string;
}

const commentPattern = /\/\*\*?([\s\S]*?)\*\/|(?:(?<=^|[\s;{(,])\/\/ .*(?:\n\s*(?=\/\/ ))?)+/gm;

const sources = globSync("src/**/*.ts");
const documents = ["README.md", "CHANGELOG.md", "AGENTS.md", ...globSync(["docs/**/*.md", "templates/**/*.md"])];
const texts: Record<string, readonly Sentence[]> = {
  "comments in src": sources.flatMap(commentsOf),
  "strings in src": [...sources, "bin/agentserve.mjs"].flatMap(stringsOf),
  "README, docs and templates": documents.flatMap(sentencesOf),
};

describe("plain English", () => {
  it("reads all comments and strings of src, and all sentences of the docs", () => {
    expect(texts["comments in src"]!.length).toBeGreaterThan(1_000);
    expect(commentsOf("test/language.test.ts").some(({ text }) => text.startsWith("A smoke detector"))).toBe(true);
    const strings = texts["strings in src"]!.map(({ text }) => text);
    expect(strings).toContain("Too many agent calls in flight"); // an error
    expect(strings).toContain("refuse to start with risky defaults"); // an option of the command line
    expect(strings).toContain("Cancel an execution; it cannot be resumed"); // a summary in /doc
    const sentences = texts["README, docs and templates"]!.map(({ text }) => text);
    expect(sentences).toContain("A recorded step never runs again."); // in a list
    expect(sentences).toContain("How it compares"); // a heading
    expect(sentences).toContain("streams an object as it grows"); // a cell of a table
  });

  for (const [where, sentences] of Object.entries(texts))
    it.each(Object.entries(rules))(`${where}: few of the sentences match the rule "%s"`, (name, { pattern, most }) => {
      const found = sentences.filter(({ text }) => pattern.test(text));
      const share = found.length / sentences.length;
      console.log(`${where}: ${name}: ${found.length} of ${sentences.length} (${(100 * share).toFixed(2)} %)`);
      expect(share, found.map(({ place, text }) => `${place}: ${text}`).join("\n")).toBeLessThanOrEqual(most);
    });
});

/** The comments of a file; lines that follow each other are one. */
function commentsOf(file: string): Sentence[] {
  const source = readFileSync(file, "utf8");
  return [...source.matchAll(commentPattern)].map(({ 0: whole, 1: block, index }) => {
    const lines = (block ?? whole).split("\n").map((line) => line.replace(/^\s*(\*|\/\/) ?/, ""));
    return { place: toPlace(file, source, index), text: lines.join(" ").replace(/\s+/g, " ").trim() };
  });
}

/** The string literals of a file that have several words: almost all of them are shown to users. */
function stringsOf(file: string): Sentence[] {
  const source = readFileSync(file, "utf8").replace(commentPattern, (comment) => comment.replace(/[^\n]/g, " "));
  const literals = source.matchAll(/"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`/g);
  return [...literals]
    .map(({ 1: double, 2: single, 3: template, index }) => ({
      place: toPlace(file, source, index),
      text: (double ?? single ?? template!).trim(),
    }))
    .filter(({ text }) => /[a-z]{2,} [a-z]/i.test(text) && !/^(SELECT|INSERT|UPDATE|DELETE|CREATE)\b/.test(text));
}

/** The headings, sentences, list items and table cells of a document, without its code blocks. */
function sentencesOf(file: string): Sentence[] {
  const source = readFileSync(file, "utf8").replace(/^```[^]*?^```/gm, (block) => block.replace(/[^\n]/g, ""));
  return [...source.matchAll(/(?:^(?![#|>-]|\d+\.).+\n?)+|^.+$/gm)].flatMap(({ 0: block, index }) =>
    block
      .replace(/^(#+|[->]|\d+\.) /, "")
      .replace(/\*\*/g, "")
      .split(/(?<=[.:;?!])\s+|\s*\|\s*/)
      .map((text) => ({ place: toPlace(file, source, index), text: text.replace(/\s+/g, " ").trim() }))
      .filter(({ text }) => /[a-z]{2,} [a-z]/i.test(text)),
  );
}

function toPlace(file: string, source: string, index: number): string {
  return `${file}:${source.slice(0, index).split("\n").length}`;
}
