import { existsSync, readFileSync } from "node:fs";

/** What models, tools and steps say of themselves, and where the process ended itself. */
export type Told =
  | { readonly what: "ask" | "go on"; readonly key: string; readonly lines: readonly string[] }
  | { readonly what: "answer"; readonly key: string; readonly text: string }
  | { readonly what: "tool" | "step" | "abort"; readonly key: string }
  | { readonly what: "gate"; readonly key: string }
  | { readonly what: "kill"; readonly key: string; readonly point: string }
  | { readonly what: "complaint"; readonly key: string };
/** Which start of the process it belongs to: a kill lies between two lives. */
export type Line = Told & { readonly life: number };

/** All of it, in order. It is written synchronously: what has happened stands there. A line that is being written is left out. */
export const readLog = (file: string): Line[] =>
  existsSync(file)
    ? readFileSync(file, "utf8")
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line))
    : [];
