import { configDefaults, type ViteUserConfig } from "vitest/config";
import base from "./vitest.config.ts";

/** Suites that any backend must pass. Files that need the embedded one say so by name. */
const suites = ["test/{workflows,agents,auth,observability,runtime}/**/*.test.ts", "test/schedules/access.test.ts"];
/** Tests with a limit on time, or with processes that take all of a machine: they run after the others, one file at a time. */
const timed = ["test/restate/{cluster,flapping,kill,outage,sleepers,suspended}.test.ts"];
/** Suites of the engine, at a reduced size. */
const engine = ["test/faults/code-changes.test.ts", "test/restate/engine/*.test.ts"];
/** Suites that are also run on three replicas behind a proxy that sends each request to the next one. */
const replicated = [
  "test/workflows/{spec,races,streams,attach,retry,fork,steps/steps,new-step/new-step}.test.ts",
  "test/workflows/concurrency/{concurrency,waits}.test.ts",
  "test/workflows/loops/{for-each,for-each-waits,do-branch-map}.test.ts",
  "test/workflows/waits/real-{clock,order}.test.ts",
  "test/agents/chat/*.test.ts",
  "test/agents/conversations.test.ts",
  "test/agents/approvals/{decide,authorize,supersede,chat,answers,ends}.test.ts",
  "test/agents/tools/{suspended-tool,executions-of-calls,inner-approvals,inner-forged}.test.ts",
  "test/agents/turns/{attach,stop}.test.ts",
  "test/agents/usage/usage.test.ts",
  "test/runtime/custom-routes.test.ts",
  "test/schedules/access.test.ts",
];

// Separate from the other tests, because they need restate-server: `npm run test:restate`.
const config: typeof base = (env) => {
  const { test: { projects: _, ...test } = {}, ...rest }: ViteUserConfig = base(env);
  const globalSetup = [...(test.globalSetup ?? []), "test/restate/global-setup.ts"];
  return {
    ...rest,
    test: {
      ...test,
      globalSetup,
      maxWorkers: 2,
      projects: [
        {
          extends: true,
          test: {
            name: "restate",
            include: ["test/restate/{,without-id/}*.test.ts"],
            exclude: [...configDefaults.exclude, ...timed],
          },
        },
        { extends: true, test: { name: "timed", include: timed, maxWorkers: 1, sequence: { groupOrder: 1 } } },
        { extends: true, test: { name: "one replica", include: suites, env: { TEST_BACKEND: "restate" } } },
        { extends: true, test: { name: "engine", include: engine, env: { TEST_BACKEND: "restate" } } },
        {
          extends: true,
          test: {
            name: "three replicas",
            include: replicated,
            // About the memory of one replica.
            exclude: [...configDefaults.exclude, "test/agents/chat/sizes.test.ts"],
            env: { TEST_BACKEND: "restate", TEST_RESTATE_REPLICAS: "3" },
          },
        },
      ],
    },
  };
};
export default config;
