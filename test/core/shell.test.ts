import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { quote, toPortableWord, toShellWord } from "../../src/core/shell.ts";

const texts = ["plain", "a b", "it's", `"double"`, "$HOME `id` !x", "back\\slash", "~", "", "*", "a;b", "'", "a@b+c"];

describe.each([
  ["quote", quote],
  ["toShellWord", toShellWord],
  ["toPortableWord", toPortableWord],
])("%s", (_, write) => {
  it.each(texts)("is one word for a shell: %j", (text) => {
    const script = `printf '%s|' ${write(text)}`;
    expect(execFileSync("sh", ["-c", script], { encoding: "utf8" })).toBe(`${text}|`);
  });
});

it("leaves a plain word as it is", () => {
  expect(toShellWord("http://127.0.0.1:3141/doc")).toBe("http://127.0.0.1:3141/doc");
  expect(toPortableWord("my-app")).toBe("my-app");
});

it("prefers double quotes where every shell has to read them", () => {
  expect(toPortableWord("What is this?")).toBe(`"What is this?"`);
  expect(toShellWord("What is this?")).toBe("'What is this?'");
});
