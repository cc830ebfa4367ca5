import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";

const reference = join(import.meta.dirname, "../../../docs/reference.md");

/** Returns the command of docs/reference.md that generates a client, for the document at another place. */
export function readCommand(tool: string, input: string): [string, ...string[]] {
  const [, command] = new RegExp(`^.*\`npx ((?:\\S+/)?${tool} .*?)\``, "m").exec(readFileSync(reference, "utf8")) ?? [];
  expect(command, `a command for ${tool} in docs/reference.md`).toContain("http://localhost:3141/doc");
  const [name, ...args] = command!.replace("http://localhost:3141/doc", input).split(" ");
  return [name!.split("/").at(-1)!, ...args];
}
