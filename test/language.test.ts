import { globSync, readFileSync } from "node:fs";
import { parseSync, Visitor } from "rolldown/utils";
import { describe, expect, it } from "vitest";

// A smoke detector for sentences that must be read twice. Comments, messages and documents are written like those of h3,
// Hono or the Restate SDK: they begin with a noun or a verb, and their subject is a thing in the code.
const rules: Record<string, Rule> = {
  "begins with What, Whether, How, Who, Whoever or Where": {
    find: once(/^(What|Whether|How|Who|Whoever|Whose|Where)\b/),
    most: 0.02,
  },
  "speaks of somebody, nobody, whoever, anybody or everybody": {
    find: once(/\b(somebody|nobody|whoever|anybody|everybody)\b/i),
    most: 0.01,
  },
  'says "goes on", "stands", "of its own" or "is no"': {
    find: once(/\b(goes on|go on|stands|stand in|of (its|their) own|(?<!there )is no (?!longer)[a-z])/i),
    most: 0.01,
  },
  'has two "of" in one clause': { find: twice(/\bof\b/g, /[.:;,?!]/), most: 0.02 },
  "has two relative clauses in one sentence": { find: twice(/\b(that|which|whose)\b/g, /[.;?!]/), most: 0.02 },
  'says "the most" or "the least" for max or min': {
    find: once(/\bthe (most|least)\b(?! (recent|general|likely|specific|common|important)\b)/i),
    most: 0,
  },
  'says "that of" or "those of"': { find: once(/\b(that|those) of\b/), most: 0.003, mostInStrings: 0.007 },
  'says "has come", "begun", "ended", "gone" or "left"': {
    find: once(/\b(has|have) (come|begun|ended|gone|left)\b/),
    most: 0.01,
  },
};

interface Rule {
  /** Returns the place of the symptom in a comment, a string or a sentence. */
  readonly find: (text: string) => string | undefined;
  /** Max share of the comments, strings or sentences with the symptom. */
  readonly most: number;
  readonly mostInStrings?: number;
}

interface Sentence {
  readonly place: string;
  readonly text: string;
}

const sources = globSync("src/**/*.{ts,tsx}");
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

  it.each([
    ["the id of the user of a call", 'has two "of" in one clause'],
    ["the id of a call, of a user", undefined],
    ["calls that wait for a step that runs", "has two relative clauses in one sentence"],
    ["calls that wait. A step that runs - a turn that ends", undefined],
    ["writes `a.that`, that waits", "has two relative clauses in one sentence"],
    ["the least free space", 'says "the most" or "the least" for max or min'],
    ["the most recent record", undefined],
    ["its end and that of the step", 'says "that of" or "those of"'],
    ["a turn that has ended", 'says "has come", "begun", "ended", "gone" or "left"'],
    ["it is no status", 'says "goes on", "stands", "of its own" or "is no"'],
    ["it is no longer open, or there is no file", undefined],
  ])('"%s": %s', (text, expected) => {
    const found = Object.entries(rules).filter(([, { find }]) => find(text) !== undefined);
    expect(found.map(([name]) => name)).toEqual(expected ? [expected] : []);
  });

  for (const [where, sentences] of Object.entries(texts))
    it.each(Object.entries(rules))(`${where}: few of the sentences match the rule "%s"`, (name, rule) => {
      const most = where === "strings in src" ? (rule.mostInStrings ?? rule.most) : rule.most;
      const found = sentences.flatMap(({ place, text }) => {
        const symptom = rule.find(text);
        return symptom === undefined ? [] : [`${place}: ${symptom}`];
      });
      const share = found.length / sentences.length;
      console.log(`${where}: ${name}: ${found.length} of ${sentences.length} (${(100 * share).toFixed(2)} %)`);
      expect(share, found.join("\n")).toBeLessThanOrEqual(most);
    });
});

/** Finds the first match, with some words around it. */
function once(pattern: RegExp): Rule["find"] {
  return (text) => {
    const at = text.search(pattern);
    return at < 0 ? undefined : text.slice(Math.max(0, at - 60), at + 100);
  };
}

/** Finds a piece with two matches. Marks and items of a list end a piece. A mark inside a name such as `a.b` does not. */
function twice(pattern: RegExp, marks: RegExp): Rule["find"] {
  const cut = new RegExp(`${marks.source}(?=[\\s)"]|$)|\\s[-·]\\s`);
  return (text) => text.split(cut).find((piece) => (piece.match(pattern)?.length ?? 0) > 1);
}

/** The comments of a file. Line comments that follow each other are one. */
function commentsOf(file: string): Sentence[] {
  const source = readFileSync(file, "utf8");
  const found: { text: string; start: number; end: number; isLine: boolean }[] = [];
  for (const { type, value, start, end } of parseSync(file, source).comments) {
    const isLine = type === "Line";
    const before = found.at(-1);
    const text = value.replace(/\n\s*\*/g, "\n").replace(/^\*/, "");
    if (isLine && before?.isLine && /^\n *$/.test(source.slice(before.end, start)))
      Object.assign(before, { text: `${before.text} ${text}`, end });
    else found.push({ text, start, end, isLine });
  }
  return found.map(({ text, start }) => ({
    place: toPlace(file, source, start),
    text: text.replace(/\s+/g, " ").trim(),
  }));
}

/** The strings and JSX texts of a file that have several words: almost all of them are shown to users. */
function stringsOf(file: string): Sentence[] {
  const source = readFileSync(file, "utf8");
  const found: Sentence[] = [];
  const add = (text: string, start: number) => found.push({ place: toPlace(file, source, start), text: text.trim() });
  const visitor = new Visitor({
    Literal: ({ value, start }) => typeof value === "string" && add(value, start),
    TemplateLiteral: ({ start, end }) => add(source.slice(start + 1, end - 1), start),
    JSXText: ({ value, start }) => add(value.replace(/\s+/g, " "), start),
  });
  visitor.visit(parseSync(file, source).program);
  return found.filter(
    ({ text }) => /[a-z]{2,} [a-z]/i.test(text) && !/^(SELECT|INSERT|UPDATE|DELETE|CREATE)\b/.test(text),
  );
}

/** The headings, sentences, list items and table cells of a document, without its code blocks. */
function sentencesOf(file: string): Sentence[] {
  const source = readFileSync(file, "utf8").replace(/^```[^]*?^```/gm, (block) => block.replace(/[^\n]/g, ""));
  return [...source.matchAll(/^ *(?:-|\d+\.) .+(?:\n +(?!-|\d+\.).+)*|(?:^(?![#|>-]|\d+\.).+\n?)+|^.+$/gm)].flatMap(
    ({ 0: block, index }) =>
      block
        .replace(/^ *(#+|[->]|\d+\.) /, "")
        .replace(/\*\*/g, "")
        .replace(/\]\([^)]*\)/g, "]")
        .split(/(?<=[.:;?!])\s+|\s*\|\s*/)
        .map((text) => ({ place: toPlace(file, source, index), text: text.replace(/\s+/g, " ").trim() }))
        .filter(({ text }) => /[a-z]{2,} [a-z]/i.test(text)),
  );
}

function toPlace(file: string, source: string, index: number): string {
  return `${file}:${source.slice(0, index).split("\n").length}`;
}
