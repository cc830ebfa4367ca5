import type { ViteUserConfig } from "vitest/config";
import base from "./vitest.config.ts";

/** What every user of the console does: sign in, start a run, approve it, read its end, chat. CI runs these. */
const mainPath = ["test/browser/console-{start,sign-in,approval}.browser.ts"];

// Separate from the other tests, because they need Chromium: `npm run test:browser`.
const config: typeof base = (env) => {
  const { test: { projects: _, ...test } = {}, ...rest }: ViteUserConfig = base(env);
  const projects: NonNullable<ViteUserConfig["test"]>["projects"] = [
    { extends: true, test: { name: "main path", include: mainPath } },
    { extends: true, test: { name: "other pages", include: ["test/browser/*.browser.ts"], exclude: mainPath } },
  ];
  const globalSetup = "test/browser/chromium.ts";
  // Safety nets: a page that is looked at in many ways takes minutes on a busy machine.
  const timeouts = { testTimeout: 600_000, hookTimeout: 600_000 };
  return { ...rest, test: { ...test, projects, globalSetup, fileParallelism: false, ...timeouts } };
};
export default config;
