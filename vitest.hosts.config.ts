import type { ViteUserConfig } from "vitest/config";
import base from "./vitest.config.ts";

// Separate from the other tests, because each installs large packages on its first run: `npm run test:hosts`.
const config: typeof base = (env) => {
  const { test: { projects: _, ...test } = {}, ...rest }: ViteUserConfig = base(env);
  const include = ["test/hosts/*/*.test.ts"];
  return { ...rest, test: { ...test, include, maxWorkers: 1, testTimeout: 1_800_000, hookTimeout: 1_800_000 } };
};
export default config;
