import { closeSync, openSync, renameSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { stamped, toStamp } from "./project.ts";

/** One save: what it writes, and what is to be seen of it. */
export interface Save {
  readonly title: string;
  /** The stamps that are new; none when it is broken. */
  readonly stamps: readonly string[];
  /** What the report names. */
  readonly names: readonly string[];
  readonly isBroken?: boolean;
  /** What the workflow that comes and goes answers then. */
  readonly extra?: number;
  write(folder: string, stamp: string): void;
}

/** All sorts of saves, in turn. Two that follow each other name different things, so that each has a report of its own. */
export const toSave = (number: number): Save => saves[number % saves.length]!;

const saves: readonly Save[] = [
  one("second", "lib/deep/second.ts", overwrite),
  one("relay", "workflow relay", replace),
  one("guide", "agent guide", overwrite),
  one("config", "agents.config.ts", replace),
  one("json", "lib/deep/data.json", overwrite),
  one("plain", "lib/plain.mjs", replace),
  {
    title: "a new file",
    stamps: [],
    names: ["workflow extra"],
    extra: 200,
    write: (folder, stamp) => writeFileSync(join(folder, extra.file), extra.text(stamp)),
  },
  one("late", "lib/late.ts", overwrite),
  one("env", ".env", replace),
  {
    title: "a file removed",
    stamps: [],
    names: ["workflow extra"],
    extra: 404,
    write: (folder) => rmSync(join(folder, extra.file)),
  },
  {
    title: "two files at once",
    stamps: ["first", "guide"],
    names: ["lib/first.ts", "agent guide"],
    write(folder, stamp) {
      rewrite("first", overwrite)(folder, stamp);
      rewrite("guide", replace)(folder, stamp);
    },
  },
  broken("a syntax error", "relay", (text) => `${text}\nexport const = ;\n`),
  one("relay", "workflow relay", replace),
  one("part", "workflow part", replace),
  broken("a module that throws", "second", (text) => `${text}\nthrow new Error("from the top of a module");\n`),
  one("second", "lib/deep/second.ts", replace),
  one("script", "lib/script.js", overwrite),
  one("journey", "workflow journey", overwrite),
];

const extra = {
  file: "workflows/extra.ts",
  text: (stamp: string) => `
import { defineWorkflow } from "agentserve";
export const extra = defineWorkflow({ id: "extra", purpose: "${stamp}" }).andThen({ id: "one", execute: () => 1 });
`,
};

type Way = (file: string, text: string) => void;

function one(name: string, reported: string, way: Way): Save {
  const title = `${stamped[name]!.file} ${way === replace ? "replaced" : "overwritten"}`;
  return { title, stamps: [name], names: [reported], write: rewrite(name, way) };
}

function broken(title: string, name: string, spoil: (text: string) => string): Save {
  const { file, text } = stamped[name]!;
  const write: Save["write"] = (folder, stamp) => replace(join(folder, file), spoil(text(stamp)));
  return { title, stamps: [], names: [file], isBroken: true, write };
}

function rewrite(name: string, way: Way): Save["write"] {
  const { file, text } = stamped[name]!;
  return (folder, stamp) => way(join(folder, file), text(stamp));
}

/** Of the same length, in one write: a file that is emptied first may be read empty, and what is served then is what it says. */
function overwrite(file: string, text: string): void {
  const descriptor = openSync(file, "r+");
  writeSync(descriptor, text);
  closeSync(descriptor);
}

/** As editors do that never leave a file half written. */
function replace(file: string, text: string): void {
  writeFileSync(`${file}.tmp~`, text);
  renameSync(`${file}.tmp~`, file);
}

export const firstStamps: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(stamped).map((name) => [name, toStamp(0)]),
);
