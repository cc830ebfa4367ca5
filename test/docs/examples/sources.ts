import { toFileName, type Block } from "./blocks.ts";
import { isChain, toChainSource } from "./chains.ts";

/** A `ts` example as files that can be type-checked and run, with what it leaves to its reader. */
export function toSources(block: Block, blocks: readonly Block[]): Record<string, string> {
  const { text } = block;
  const name = toFileName(block);
  const config = "agents.config.ts";
  if (isChain(block)) return { "chain.ts": toChainSource(block) };
  if (name !== undefined && /from "\.\.?\//.test(text))
    return { [config]: toConfig(""), ...toFilesBefore(block, blocks), [name]: text };
  if (name === config) return { [name]: text };
  if (name !== undefined) return { [name]: text, [config]: toConfig("") };
  if (isPartOfConfig(block)) return { [config]: toConfig(text) };
  if (/: AuthProvider =/.test(text))
    return { "auth.ts": text, [config]: toConfig("auth: keys", keys), ...surroundings };
  return { "main.ts": text };
}

/** The files that the page has put into the project before this example. */
export function toFilesBefore(block: Block, blocks: readonly Block[]): Record<string, string> {
  const before = blocks.filter(({ file, line }) => file === block.file && line < block.line);
  const files = before.flatMap((one) => {
    const name = toFileName(one);
    return name === undefined ? [] : [[name, one.text]];
  });
  return Object.fromEntries(files);
}

/** `server: { … }`, alone. */
export const isPartOfConfig = ({ language, text }: Block): boolean => language === "ts" && /^\w+: /.test(text);

const toConfig = (body: string, head = ""): string =>
  `import { defineConfig } from "agentserve";\n${head}export default defineConfig({\n${body}\n});\n`;

const keys = `import { keys } from "./auth.ts";
globalThis.findUserByKey = async (key) => (key === "key-of-ada" ? { id: "ada", name: "Ada" } : undefined);
`;
const surroundings = {
  "surroundings.d.ts":
    "declare var findUserByKey: (key: string) => Promise<{ id: string; name: string } | undefined>;\n",
};
