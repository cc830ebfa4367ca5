import { findModelProblems } from "../../agents/models/model-problems.ts";
import { explainFormerLimit } from "../../config/limits.ts";
import { withPlace } from "../../config/load-error.ts";
import type { Loader, Project } from "../../config/load.ts";
import { cut } from "../../core/cut.ts";
import type { Logger } from "../../core/log.ts";
import { UserError } from "../../core/user-error.ts";
import type { ServerParts } from "../../server/assemble.ts";
import { openServer, type OpenServer } from "../../server/create.ts";
import { findRisks, type Risk, type RiskOptions } from "../../server/risks.ts";
import type { Warning } from "./announcer.ts";
import { UsageError } from "../usage.ts";

/** The flags of both `dev` and `start`. */
export interface ServeFlags {
  readonly config?: string;
  readonly port?: string;
  readonly host?: string;
  readonly data?: string;
  readonly json?: boolean;
  /** The option of the program, given before or behind the command. */
  readonly debug?: boolean;
}

/** The address to listen on, and the data file. A flag overrides the environment, which overrides the config. */
export interface ServeSettings {
  readonly host: string;
  readonly port: number | undefined;
  readonly file: string | undefined;
}
export function toSettings(flags: ServeFlags, { config: { backend, server } }: Project): ServeSettings {
  return {
    // Not `??`: an empty HOST would listen on every address.
    host: flags.host || process.env["HOST"] || server.host || "127.0.0.1",
    port: toPort(flags.port, "--port") ?? toPort(process.env["PORT"], "PORT") ?? server.port,
    file: (backend.hasFile && (flags.data || process.env["AGENTSERVE_DATA"])) || undefined,
  };
}

/** Refuses `--data` where the backend has no file: its data would not be where the user expects it. */
export function refuseData({ data }: ServeFlags, { config: { backend } }: Project): void {
  if (data && !backend.hasFile) throw new UsageError(`--data: the ${backend.type} backend has no data file`);
}

/** Warns about a variable that the backend does not use. It may be set for other servers of the machine. */
export function findIgnoredData({ config: { backend } }: Project): Warning[] {
  if (backend.hasFile || !process.env["AGENTSERVE_DATA"]) return [];
  const message = `AGENTSERVE_DATA is ignored: the ${backend.type} backend has no data file`;
  return [{ message, hint: "unset AGENTSERVE_DATA for this server" }];
}

/**
 * Opens the server of a project. An error in the project's code is thrown with its place in the source. Later,
 * unhandled errors are logged.
 */
export function openWithPlace(project: Project, loader: Loader, parts: ServerParts): OpenServer {
  try {
    const server = openServer(project, parts);
    keepServing(server.logger);
    return server;
  } catch (error) {
    throw withPlace(error, loader.file, project.root);
  }
}

/** Finds agents that cannot answer, and former limits. */
export async function findProblems({ agents, config, root }: Project): Promise<Warning[]> {
  const definitions = agents.map(({ value }) => value);
  return [...(await findModelProblems(definitions, root)), ...config.server.formerLimits.map(explainFormerLimit)];
}

export const risksOf = (
  server: OpenServer,
  { config }: Project,
  asked: Pick<RiskOptions, "mode" | "host" | "isStrict">,
): Risk[] => findRisks({ config, routes: server.routes(), ...asked });

/**
 * Logs unhandled rejections and uncaught exceptions, and keeps the server running. They do not belong to a request, and
 * would end the process and every execution in it.
 */
function keepServing(logger: Logger): void {
  process.on("unhandledRejection", (error) => logger.error("Unhandled rejection", { error }));
  process.on("uncaughtException", (error) => logger.error("Uncaught exception", { error }));
}

function toPort(text: string | undefined, from: string): number | undefined {
  if (text === undefined || text === "") return undefined;
  const port = Number(text);
  if (/^\d+$/.test(text) && port <= 65_535) return port;
  const Mistake = from.startsWith("--") ? UsageError : UserError;
  throw new Mistake(`${from}: expected a port number from 0 to 65535, found ${cut(JSON.stringify(text))}`);
}
