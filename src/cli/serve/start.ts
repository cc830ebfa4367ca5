import { UserError } from "../../core/user-error.ts";
import type { Risk } from "../../server/risks.ts";
import { closeOnSignal } from "../../server/shutdown.ts";
import { createAnnouncer } from "./announcer.ts";
import { loadVisibly, openLoader } from "../project/open.ts";
import {
  findIgnoredData,
  findProblems,
  openWithPlace,
  refuseData,
  risksOf,
  toSettings,
  type ServeFlags,
} from "./serving.ts";

const noHttps = {
  message: "server.https works only in dev: serving plain HTTP",
  hint: "terminate TLS in a reverse proxy",
};

export interface StartFlags extends ServeFlags {
  readonly strict?: boolean;
  /** False for `--no-recovery`. */
  readonly recovery?: boolean;
}

/** Serves a project until a signal ends the process. */
export async function start(flags: StartFlags): Promise<void> {
  const mode = "start";
  const began = performance.now();
  const loader = openLoader(flags.config);
  const project = await loadVisibly(loader, flags);
  refuseData(flags, project);
  const { host, port, file } = toSettings(flags, project);
  const server = openWithPlace(project, loader, { mode, json: flags.json, file, recovery: flags.recovery });
  const risks = risksOf(server, project, { mode, host, isStrict: flags.strict });
  refuse(risks, flags);
  const announcer = createAnnouncer(server, flags);
  const { url } = await server.listen({ port, host });
  closeOnSignal(
    // A load balancer is told by SIGTERM only: Ctrl+C must not wait for it.
    (signal) => server.close({ noticeMs: signal === "SIGTERM" ? project.config.server.limits.drainNoticeMs : 0 }),
    announcer,
  );
  announcer.started({ mode, url, ms: performance.now() - began });
  announcer.warn([
    ...risks,
    ...(await findProblems(project)),
    ...findIgnoredData(project),
    ...(project.config.server.https ? [noHttps] : []),
  ]);
}

/** Refuses a weak secret, and with `--strict` every risk. */
function refuse(risks: readonly Risk[], { strict }: StartFlags): void {
  const refused = strict ? risks : risks.filter(isWeak);
  if (refused.length === 0) return;
  const hints = refused.map(({ hint }) => hint);
  if (!refused.every(isWeak)) hints.push("or start without --strict");
  throw new UserError(refused.map(({ message }) => message).join("\n"), { hint: hints.join("; ") });
}

const isWeak = ({ name }: Risk): boolean => name === "weak-secret";
