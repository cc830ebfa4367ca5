import { isDeepStrictEqual } from "node:util";
import type { Project } from "../config/load.ts";
import { isLoopback } from "../core/loopback.ts";
import { closeOnSignal } from "../server/shutdown.ts";
import { openBrowser } from "./browser.ts";
import { colors } from "./colors.ts";
import { writeError } from "./fail.ts";
import { loadVisibly, openLoader } from "./project.ts";
import {
  findIgnoredData,
  openWithPlace,
  print,
  refuseData,
  risksOf,
  sayReady,
  sayRisks,
  toSettings,
} from "./serving.ts";
import type { ServeFlags } from "./serving.ts";

/** Serves a project and reloads it on save, until a signal ends the process. */
export async function dev(flags: ServeFlags & { https?: boolean; open?: boolean }): Promise<void> {
  const mode = "dev";
  const began = performance.now();
  const loader = openLoader(flags.config);
  const project = await loadVisibly(loader);
  refuseData(flags, project);
  const toFixed = (one: Project) => {
    const { backend, server } = one.config;
    const { type, settings } = backend;
    const https = flags.https ?? server.https ?? false;
    return { ...toSettings(flags, one), https, backend: { type, settings }, limits: server.limits };
  };
  const fixed = toFixed(project);
  const { host, port, file, https } = fixed;
  const server = openWithPlace(project, loader, { mode, json: flags.json, file });
  const { url } = await server.listen({ port, host, https });
  let reload: { close(): Promise<void> } | undefined;
  closeOnSignal(
    async () => {
      await Promise.all([reload?.close(), server.close()]);
    },
    (line) => print(colors.dim(line)),
  );
  sayReady(server, { mode, url, took: performance.now() - began });
  let risks = risksOf(server, project, host);
  sayRisks([...risks, ...findIgnoredData(project)]);
  if (flags.open) openBrowser(`${url.replace("//0.0.0.0", "//127.0.0.1")}/`);

  const { createReload } = await import("../dev/reload.ts"); // after the server is ready
  reload = createReload({
    loader,
    server,
    project,
    needsRestart(next) {
      const now = toFixed(next);
      const keys = Object.keys(fixed) as (keyof typeof fixed)[];
      return keys.filter((key) => !isDeepStrictEqual(fixed[key], now[key]));
    },
    showsCode: isLoopback(host),
    say: {
      loading: () => void process.stderr.write(colors.dim("loading …\n")),
      served(change, ms, next) {
        print(`${colors.green("✓")} ${change} ${colors.dim(`· ${Math.round(ms)} ms`)}`);
        const before = new Set(risks.map(({ name }) => name));
        risks = risksOf(server, next, host);
        sayRisks(risks.filter(({ name }) => !before.has(name)));
      },
      restart: (keys) => print(`${colors.yellow("!")} ${keys.join(", ")} changed ${colors.dim("· restart to apply")}`),
      failed(problem) {
        writeError(problem);
        process.stderr.write(`${colors.dim("      still serving the last good version")}\n`);
      },
    },
  });
}
