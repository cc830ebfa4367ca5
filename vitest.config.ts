import type { ViteUserConfig } from "vitest/config";
import { patienceMs } from "./test/harness/patience.ts";

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
    globalSetup: ["test/harness/logged.ts", "test/harness/compile-cache.ts"],
    setupFiles: ["test/harness/setup.ts"],
    // By default one processor is left free, which halves the speed where there are two.
    maxWorkers: "100%",
    // Safety nets, not expectations: on a machine with other work, a test that starts processes takes long.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: patienceMs, interval: 10 } },
    env: { TEST_SIZE: mode === "full" ? "full" : "quick" },
  },
});
export default config;
