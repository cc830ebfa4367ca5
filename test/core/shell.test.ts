import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { quote, toPortableWord, toShellWord } from "../../src/core/terminal/shell.ts";

const texts = ["plain", "a b", "it's", `"double"`, "$HOME `id` !x", "back\\slash", "~", "", "*", "a;b", "'", "a@b+c"];

it.each([
  ["quote", quote],
  ["toShellWord", toShellWord],
  ["toPortableWord", toPortableWord],
])("%s makes one word for a shell of any text", (_, write) => {
  const script = `printf '%s|' ${texts.map(write).join(" ")}`;
  expect(execFileSync("sh", ["-c", script], { encoding: "utf8" })).toBe(texts.map((text) => `${text}|`).join(""));
});

it("leaves a plain shell word as it is", () => {
  expect(toShellWord("http://127.0.0.1:3141/doc")).toBe("http://127.0.0.1:3141/doc");
  expect(toPortableWord("my-app")).toBe("my-app");
});

it("prefers double quotes for a word that every shell has to read", () => {
  expect(toPortableWord("What is this?")).toBe(`"What is this?"`);
  expect(toShellWord("What is this?")).toBe("'What is this?'");
});
