import { colors } from "consola/utils";
import { ConfigError } from "../config/error.ts";
import type { Logger } from "../core/log.ts";
import type { Mode } from "../server/app.ts";
import { openServer } from "../server/create.ts";
import { findRisks, findWeakSecret } from "../server/risks.ts";
import { closeOnSignal } from "../server/shutdown.ts";
import { openProject } from "./project.ts";
import { countRoutes } from "./routes.ts";

/** Loads and serves a project until a signal ends it. A flag beats the environment, which beats the config. */
export async function serve(
  mode: Mode,
  flags: { config?: string; port?: string; host?: string; data?: string; allowWeakSecret?: boolean; json?: boolean },
): Promise<void> {
  const began = performance.now();
  const project = await openProject(flags.config);
  // `||`: an empty HOST would listen on every address.
  const host = flags.host || process.env["HOST"] || project.config.server.host || "127.0.0.1";
  const port = toPort(flags.port, "--port") ?? toPort(process.env["PORT"], "PORT") ?? project.config.server.port;
  const weak = mode === "start" && !flags.allowWeakSecret && findWeakSecret(project.config);
  if (weak) throw new ConfigError(weak.message, { hint: `${weak.hint}, or start with --allow-weak-secret` });
  const server = openServer(project, {
    mode,
    json: flags.json,
    file: flags.data || process.env["AGENTSERVE_DATA"] || undefined,
  });
  const { url } = await server.listen({ port, host });
  keepServing(server.logger);
  closeOnSignal(
    () => server.close(),
    (line) => print(colors.dim(line)),
  );
  const took = Math.round(performance.now() - began);
  const { agents, workflows } = server.snapshot;
  const served = [counted(agents.size, "agent"), counted(workflows.size, "workflow")].join(", ");
  print(`${colors.green("agentserve")} ${mode}  ${colors.cyan(url)}  ${colors.dim(`ready in ${took} ms`)}`);
  print(colors.dim(`  ${served}  ·  ${url}/agents  ·  ${url}/workflows  ·  ${url}/doc`));
  const routes = server.routes();
  print(colors.dim(`  ${countRoutes(routes)}  ·  agentserve routes lists them`));
  for (const { message, hint } of findRisks({ config: project.config, host, routes })) warn(message, hint);
}

/**
 * A promise that a step forgot and that rejects, or a throw out of a timer, would end the process and every execution in
 * it. It belongs to no request: it is logged, and the server goes on.
 */
function keepServing(logger: Logger): void {
  process.on("unhandledRejection", (error) => logger.error("Unhandled rejection", { error }));
  process.on("uncaughtException", (error) => logger.error("Uncaught exception", { error }));
}

function toPort(text: string | undefined, from: string): number | undefined {
  if (text === undefined || text === "") return undefined;
  const port = Number(text);
  if (/^\d+$/.test(text) && port <= 65_535) return port;
  throw new ConfigError(`${from}: expected a port number from 0 to 65535, found ${JSON.stringify(text)}`);
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
function warn(message: string, hint: string): void {
  process.stderr.write(`${colors.yellow("warning")} ${message}\n${colors.dim("hint ")}   ${hint}\n`);
}
const print = (line: string): void => void process.stdout.write(`${line}\n`);
