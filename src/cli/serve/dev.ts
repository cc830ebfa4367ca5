import { isDeepStrictEqual } from "node:util";
import type { Project } from "../../config/load.ts";
import { isLoopback } from "../../core/loopback.ts";
import { defaultPort } from "../../server/create.ts";
import { closeOnSignal } from "../../server/shutdown.ts";
import { createAnnouncer } from "./announcer.ts";
import { openBrowser } from "./browser.ts";
import { toConsoleUrl } from "./console-url.ts";
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

interface DevFlags extends ServeFlags {
  readonly https?: boolean;
  readonly open?: boolean;
}

/** Serves a project and reloads it on save, until a signal ends the process. */
export async function dev(flags: DevFlags): Promise<void> {
  const mode = "dev";
  const began = performance.now();
  const loader = openLoader(flags.config);
  const project = await loadVisibly(loader, flags);
  refuseData(flags, project);
  const fixed = toFixed(flags, project);
  const { host, port, file, https } = fixed;
  const { drainMs } = fixed.limits;
  const server = openWithPlace(project, loader, { mode, host, json: flags.json, debug: flags.debug, file });
  const announcer = createAnnouncer(server, flags);
  const listening = await server.listen({ port, host, https });
  const { url } = listening;
  let reload: { close(): Promise<void> } | undefined;
  closeOnSignal(async () => {
    await Promise.all([reload?.close(), server.close({ drainMs: Math.min(drainMs, restartMs) })]);
  }, announcer);
  announcer.started({ mode, url, ms: performance.now() - began });
  if (port === undefined && listening.port !== defaultPort) announcer.portMoved(defaultPort, listening.port);
  let risks = risksOf(server, project, { mode, host });
  let problems = await findProblems(project);
  announcer.warn([...risks, ...problems, ...findIgnoredData(project)]);
  async function warnOfProblems(next: Project): Promise<void> {
    const found = await findProblems(next);
    const known = new Set(problems.map(({ message }) => message));
    problems = found;
    announcer.warn(found.filter(({ message }) => !known.has(message)));
  }
  server.sessions?.onUse(() => announcer.consoleOpened(url));
  if (flags.open) {
    const base = url.replace("//0.0.0.0", "//127.0.0.1");
    const { url: shown = `${base}/`, link = shown } = toConsoleUrl(server, base) ?? {};
    openBrowser(link, shown);
  }

  const { Reload } = await import("../../dev/reload.ts"); // after the server is ready
  reload = new Reload({
    loader,
    server,
    project,
    needsRestart(next) {
      const now = toFixed(flags, next);
      const keys = Object.keys(fixed) as (keyof typeof fixed)[];
      return keys.filter((key) => !isDeepStrictEqual(fixed[key], now[key]));
    },
    showsCode: isLoopback(host),
    report: {
      ...announcer,
      reloaded(change, ms, next) {
        announcer.reloaded(change, ms);
        const before = new Set(risks.map(({ name }) => name));
        risks = risksOf(server, next, { mode, host });
        announcer.warn(risks.filter(({ name }) => !before.has(name)));
        void warnOfProblems(next);
      },
    },
  });
}

/** Returns the settings that a reload cannot change. */
function toFixed(flags: DevFlags, project: Project) {
  const { backend, server } = project.config;
  const { type, settings } = backend;
  const https = flags.https ?? server.https ?? false;
  return { ...toSettings(flags, project), https, backend: { type, settings }, limits: server.limits };
}

/** Max time for work in flight after Ctrl+C, in milliseconds. Steps that are cut off run again at the next start. */
const restartMs = 300;
