import type { ViteUserConfig } from "vitest/config";

/** A project in which everything fails that can. Run by test/tally/tally.test.ts. */
const config: ViteUserConfig = {
  test: {
    root: import.meta.dirname,
    include: ["failing-test.ts", "failing-hook.ts", "unhandled-rejection.ts", "killed-worker.ts"],
    globalSetup: "failing-teardown.ts",
    reporters: ["default", "../tally.ts"],
  },
};
export default config;
