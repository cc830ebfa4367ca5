import type { Mutation } from "./mutation.ts";

/** Faults in the command line: `src/cli`. */
export const cli: readonly Mutation[] = [
  {
    breaks: "Scripts cannot tell a wrong command line from a failure",
    file: "src/cli/fail.ts",
    find: "error instanceof UsageError ? exitCodes.usage : exitCodes.failed",
    replace: "error instanceof UsageError ? exitCodes.failed : exitCodes.usage",
    suite: "test/cli/usage.test.ts",
  },
  {
    breaks: "An error message writes escape sequences to the terminal",
    file: "src/cli/fail.ts",
    find: "lines.map((line) => toVisible(line, { max: longestLine }))",
    replace: "lines.map((line) => line.slice(0, longestLine))",
    suite: "test/cli/usage.test.ts",
  },
  {
    breaks: "init writes through a dangling link, outside of the project",
    file: "src/cli/project/init.ts",
    find: "lstatSync(path, { throwIfNoEntry: false }) !== undefined;",
    replace: "statSync(path, { throwIfNoEntry: false }) !== undefined;",
    suite: "test/cli/init.test.ts",
  },
  {
    breaks: "start serves with a weak secret",
    file: "src/cli/serve/start.ts",
    find: "const refused = strict ? risks : risks.filter(isWeak);",
    replace: "const refused = strict ? risks : [];",
    suite: "test/cli/access.test.ts",
  },
  {
    breaks: "A claim without a key becomes a claim with an empty key",
    file: "src/cli/project/token.ts",
    find: "if (at < 1)",
    replace: "if (at < 0)",
    suite: "test/cli/token.test.ts",
  },
  {
    breaks: "A token is signed for another audience than the project's",
    file: "src/cli/project/token.ts",
    find: "    ...signer?.defaults,",
    replace: "    ...{},",
    suite: "test/cli/token.test.ts",
  },
  {
    breaks: "A lost connection hides that an execution may have started",
    file: "src/cli/schedules/schedules.ts",
    find: "error instanceof InterruptError || (error instanceof ConnectionError && error.wasSent);",
    replace: "error instanceof InterruptError;",
    suite: "test/cli/schedules.test.ts",
  },
  {
    breaks: "A suspended execution looks completed to a script",
    file: "src/cli/runs/act.ts",
    find: `if (outcome["status"] === "suspended") process.exitCode`,
    replace: `if (outcome["status"] === "error") process.exitCode`,
    suite: "test/cli/runs-server.test.ts",
  },
];
