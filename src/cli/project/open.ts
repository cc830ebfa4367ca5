import { show } from "../../config/load-error.ts";
import { within } from "../../core/clock.ts";
import { createLoader, dispose, findConfig, type Loader, type Project } from "../../config/load.ts";
import { colors } from "../colors.ts";
import { leave } from "../output.ts";
import * as restate from "../../backends/restate/define.ts";
import * as agentserve from "../../index.ts";
import * as models from "../../models.ts";

/**
 * Creates the loader for the given config, or for the one in this folder. The project's files import the same module
 * instances that run here.
 */
export function openLoader(config: string | undefined): Loader {
  const modules = { agentserve, "agentserve/models": models, "agentserve/backends/restate": restate };
  return createLoader(findConfig(config, process.cwd()), modules);
}

export function openProject(config: string | undefined): Promise<Project> {
  return loadVisibly(openLoader(config));
}

/** Loads a project. Prints a line if that takes more than a second, unless only JSON is printed. */
export async function loadVisibly(loader: Loader, { json }: { json?: boolean } = {}): Promise<Project> {
  const report = () => json || process.stderr.write(colors.dim(`loading ${show(loader.file)} …\n`));
  const slow = setTimeout(report, 1_000);
  try {
    return await loader.load();
  } finally {
    clearTimeout(slow);
  }
}

/** Exits after a command that only reads a project. The project's resources get `disposeMs` to close. */
export async function leaveProject(project: Project | undefined): Promise<never> {
  if (project) await within(disposeMs, dispose(project.config), { onLate: () => {} });
  return leave();
}
export const disposeMs = 2_000;
