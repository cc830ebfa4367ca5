import { join } from "node:path";
import { configDefaults, type ViteUserConfig } from "vitest/config";
import base from "./vitest.config.ts";

const folder = join(import.meta.dirname, "test/hosts/ai-range", process.env["AI_RANGE"] ?? "lowest");

/** The server uses the `ai` of that folder. The clients of the tests keep theirs. */
const otherSdk = {
  name: "other-sdk",
  enforce: "pre" as const,
  resolveId(source: string, importer = "") {
    if (source !== "ai" || !importer.startsWith(join(import.meta.dirname, "src/"))) return undefined;
    return { id: join(folder, "node_modules/ai/dist/index.js"), external: true };
  },
};

// The agent suites on another version of the AI SDK: `AI_RANGE=newest npm run test:ai`. Run by
// test/hosts/ai-range/ai-range.test.ts, which installs it.
const config: typeof base = (env) => {
  const { test: { projects: _, ...test } = {}, ...rest }: ViteUserConfig = base(env);
  const include = ["test/agents/**/*.test.ts", "test/hosts/ai-range/suites/*.test.ts"];
  // The processes that check schemas do not use the SDK.
  const exclude = [...configDefaults.exclude, "test/agents/schemas/{attacks,survival,idle-workers}.test.ts"];
  // The cache would keep the version of an earlier run.
  return { ...rest, plugins: [otherSdk], test: { ...test, include, exclude, fsModuleCache: false } };
};
export default config;
