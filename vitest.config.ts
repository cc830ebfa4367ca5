import { availableParallelism } from "node:os";
import { configDefaults, type ViteUserConfig } from "vitest/config";
import { patienceMs } from "./test/harness/patience.ts";

const all = "test/**/*.test.ts";
/** They need restate-server: vitest.restate.config.ts. */
const restate = "test/restate/**";
/** They install large packages: vitest.hosts.config.ts. */
const hosts = "test/hosts/**";

/**
 * Files that replace or measure something of the whole process, or whose helpers register hooks: each has its own process.
 */
const isolated = [
  "test/agents/provider/*.test.ts",
  "test/engine/{sequence,slots-memory,walk/memory}.test.ts",
  "test/observability/{broken-sdk,otlp,otlp-export,spans}.test.ts",
  "test/workflows/space.test.ts",
];

/** Suites that attack servers, kill processes, fill disks, install packages or run every example: `npm run test:deep`. */
const deep = [
  "test/attacks/**/*.test.ts",
  "test/faults/**/*.test.ts",
  "test/load/**/*.test.ts",
  "test/cli/packed.test.ts",
  "test/dev/bad-saves.test.ts",
  "test/dev/saves/saves.test.ts",
  "test/docs/examples/examples.test.ts",
];

/** Generated tests: the same in each run of a change, new ones at full size. `SEED` repeats a run. */
const toSeed = (mode: string): string =>
  (process.env["SEED"] ??= mode === "full" ? String(Date.now() % 1_000_000) : "1");

const config: (env: { mode: string }) => ViteUserConfig = ({ mode }) => ({
  // Tests import `agentserve` as users do. It must be the same module instance that the server under test uses.
  resolve: {
    alias: {
      "agentserve/models": new URL("src/models.ts", import.meta.url).pathname,
      "agentserve/testing": new URL("src/testing.ts", import.meta.url).pathname,
      "agentserve/backends/restate": new URL("src/backends/restate/define.ts", import.meta.url).pathname,
      agentserve: new URL("src/index.ts", import.meta.url).pathname,
    },
  },
  test: {
    reporters: ["default", "./test/tally/tally.ts"],
    globalSetup: ["test/harness/logged.ts", "test/harness/compile-cache.ts"],
    setupFiles: ["test/harness/setup.ts"],
    // More than there are processors: many tests wait for processes that they have started, or for time to pass.
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    // Safety nets, not expectations: on a busy machine, a test that starts processes takes long.
    testTimeout: mode === "full" ? 600_000 : 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: patienceMs, interval: 10 } },
    env: { TEST_SIZE: mode === "full" ? "full" : "quick", SEED: toSeed(mode) },
    projects: [
      { extends: true, test: { name: "isolated", include: isolated } },
      { extends: true, test: { name: "deep", include: deep } },
      // A new process for each file would import every module again, which costs more than most of these tests.
      {
        extends: true,
        test: {
          name: "shared",
          include: [all],
          exclude: [...configDefaults.exclude, ...isolated, ...deep, restate, hosts],
          isolate: false,
        },
      },
    ],
  },
});
export default config;
