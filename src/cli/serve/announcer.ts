import type { Problem } from "../../pages/problem.ts";
import type { OpenServer } from "../../server/create.ts";
import { colors } from "../colors.ts";
import { toConsoleUrl } from "./console-url.ts";
import { writeError } from "../fail.ts";
import { countRoutes } from "../project/routes.ts";

export interface Warning {
  readonly message: string;
  /** The way to remove the cause. */
  readonly hint: string;
}

/** The messages of `dev` and `start` about themselves: to a person, or with `--json` to the log. */
export interface Announcer {
  started(facts: { mode: string; url: string; ms: number }): void;
  /** In `dev`: the link of the console was used, and there is another one. Never in the log. */
  consoleOpened(url: string): void;
  /** In `dev`: the default port is in use. */
  portMoved(from: number, to: number): void;
  warn(warnings: readonly Warning[]): void;
  shuttingDown(): void;
  shutdownFailed(error: unknown): void;
  loading(): void;
  reloaded(change: string, ms: number): void;
  restartNeeded(keys: readonly string[]): void;
  refused(problem: Problem): void;
  refusedAgain(): void;
}

export function createAnnouncer(server: OpenServer, { json }: { json?: boolean | undefined }): Announcer {
  return json ? toLog(server) : toPerson(server);
}

function toPerson(server: OpenServer): Announcer {
  return {
    started({ mode, url, ms }) {
      const { agents, workflows, schedules } = server.snapshot;
      const served = [
        counted(agents.size, "agent"),
        counted(workflows.size, "workflow"),
        ...(schedules.size > 0 ? [counted(schedules.size, "schedule")] : []),
      ].join(", ");
      const took = colors.dim(`ready in ${Math.round(ms)} ms`);
      print(`${colors.green("agentserve")} ${mode}  ${colors.cyan(url)}  ${took}`);
      print(colors.dim(`  ${served}  ·  ${url}/ui  ·  /doc`));
      print(colors.dim(`  ${countRoutes(server.routes())}  ·  list them with "agentserve routes"`));
      const link = toConsoleUrl(server, url)?.link;
      if (link) print(`  ${colors.dim("console")}  ${colors.cyan(link)}`);
    },
    consoleOpened(url) {
      const link = toConsoleUrl(server, url)?.link;
      if (link) print(colors.dim(`  signed in to the console  ·  next link ${link}`));
    },
    portMoved: (from, to) => print(`${colors.yellow("!")} port ${from} is in use ${colors.dim(`· using ${to}`)}`),
    warn(warnings) {
      for (const { message, hint } of warnings)
        printError(`${colors.yellow("warning")} ${message}\n${colors.dim("hint ")}   ${hint}`);
    },
    shuttingDown: () => print(colors.dim("shutting down … press Ctrl+C again to force")),
    shutdownFailed: (error) => print(colors.dim(`shutdown failed: ${String(error)}`)),
    loading: () => printError(colors.dim("loading …")),
    reloaded: (change, ms) => print(`${colors.green("✓")} ${change} ${colors.dim(`· ${Math.round(ms)} ms`)}`),
    restartNeeded: (keys) =>
      print(`${colors.yellow("!")} ${keys.join(", ")} changed ${colors.dim("· restart to apply")}`),
    refused(problem) {
      writeError(problem);
      printError(colors.dim("      still serving the last good version"));
    },
    refusedAgain: () => printError(colors.dim("      same error · still serving the last good version")),
  };
}

function toLog({ logger, snapshot }: OpenServer): Announcer {
  return {
    started({ mode, url, ms }) {
      const { agents, workflows, schedules } = snapshot;
      const sizes = { agents: agents.size, workflows: workflows.size, schedules: schedules.size };
      const data = { mode, url, ...sizes, ms: Math.round(ms) };
      logger.info("Server started", data);
    },
    consoleOpened: () => {},
    portMoved: (from, to) => logger.warn(`Port ${from} is in use`, { port: to }),
    warn: (warnings) => warnings.forEach(({ message, hint }) => logger.warn(message, { hint })),
    shuttingDown: () => logger.info("Shutting down"),
    shutdownFailed: (error) => logger.error("Shutdown failed", { error }),
    loading: () => logger.info("Loading"),
    reloaded: (change, ms) => logger.info(`Reloaded: ${change}`, { ms: Math.round(ms) }),
    restartNeeded: (keys) => logger.warn(`Restart to apply: ${keys.join(", ")} changed`),
    refused: ({ message, hint }) =>
      logger.error(message, { ...(hint && { hint }), note: "still serving the last good version" }),
    refusedAgain: () => logger.info("Not reloaded: the error is still the same"),
  };
}

export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
const printError = (line: string): void => void process.stderr.write(`${line}\n`);
const print = (line: string): void => void process.stdout.write(`${line}\n`);
