import type { ViteUserConfig } from "vitest/config";
import { patienceMs } from "./test/harness/patience.ts";

const config: (env: { mode: string }) => ViteUserConfig = ({ mode }) => ({
  // Tests import `agentserve` as users do. It must be the same module instance that the server under test uses.
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
    // By default one processor is left free, which halves the speed on two.
    maxWorkers: "100%",
    // Safety nets, not expectations: on a busy machine, a test that starts processes takes long.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: patienceMs, interval: 10 } },
    env: { TEST_SIZE: mode === "full" ? "full" : "quick" },
  },
});
export default config;
