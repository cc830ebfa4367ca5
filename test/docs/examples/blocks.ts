import { globSync, readFileSync } from "node:fs";

/** An example: what stands between two fences. */
export interface Block {
  readonly file: string;
  /** Of its first fence. */
  readonly line: number;
  /** What stands behind that, or nothing. */
  readonly language: string;
  readonly text: string;
}

/** Every example of the README and of `docs/`, in the order in which a reader meets them. */
export function readBlocks(): Block[] {
  return ["README.md", ...globSync("docs/*.md").toSorted()].flatMap((file) =>
    toBlocks(file, readFileSync(file, "utf8")),
  );
}

export function toBlocks(file: string, markdown: string): Block[] {
  const blocks: Block[] = [];
  let open: { fence: string; line: number; language: string; lines: string[] } | undefined;
  for (const [at, text] of markdown.split("\n").entries()) {
    const [, fence, language = ""] = /^\s*(`{3,}|~{3,})\s*(.*?)\s*$/.exec(text) ?? [];
    if (open && fence === open.fence && language === "") {
      blocks.push({ file, line: open.line, language: open.language, text: `${open.lines.join("\n")}\n` });
      open = undefined;
    } else if (open) open.lines.push(text);
    else if (fence !== undefined) open = { fence, line: at + 1, language, lines: [] };
  }
  if (open) throw new Error(`${file}:${open.line}: a block that does not end`);
  return blocks;
}

export const toPlace = ({ file, line }: Block): string => `${file}:${line}`;

/** `agents/support.ts`, where the first line says so: `// agents/support.ts`. */
export const toFileName = ({ language, text }: Block): string | undefined =>
  language === "ts" ? /^\/\/ (\S+\.ts)\n/.exec(text)?.[1] : undefined;
