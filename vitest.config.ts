import type { ViteUserConfig } from "vitest/config";

const config: (env: { mode: string }) => ViteUserConfig = ({ mode }) => ({
  // Tests import what users import; it must be the very module that the server under test is made of.
  resolve: {
    alias: {
      "agentserve/models": new URL("src/models.ts", import.meta.url).pathname,
      agentserve: new URL("src/index.ts", import.meta.url).pathname,
    },
  },
  test: {
    include: ["test/**/*.test.ts"],
    reporters: ["default", "./test/tally.ts"],
    globalSetup: ["test/harness/logged.ts"],
    setupFiles: ["test/harness/setup.ts"],
    testTimeout: 15_000,
    env: { TEST_SIZE: mode === "full" ? "full" : "quick" },
  },
});
export default config;
