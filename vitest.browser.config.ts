import type { ViteUserConfig } from "vitest/config";
import base from "./vitest.config.ts";

// Separate from the other tests, because they need Chromium: `npm run test:browser`.
const config: typeof base = (env) => {
  const { test: { projects: _, ...test } = {}, ...rest }: ViteUserConfig = base(env);
  const include = ["test/browser/*.browser.ts"];
  return { ...rest, test: { ...test, include, globalSetup: "test/browser/chromium.ts", fileParallelism: false } };
};
export default config;
