import { show } from "../config/load-error.ts";
import { createLoader, dispose, findConfig, type Loader, type Project } from "../config/load.ts";
import { within } from "../core/within.ts";
import * as agentserve from "../index.ts";
import * as models from "../models.ts";
import { colors } from "./colors.ts";
import { leave } from "./output.ts";

/** The project of this folder, or of the config asked for. Its files get the very modules that run here. */
export function openLoader(config: string | undefined): Loader {
  return createLoader(findConfig(config, process.cwd()), { agentserve, "agentserve/models": models });
}

export function openProject(config: string | undefined): Promise<Project> {
  return loadVisibly(openLoader(config));
}

/** Says that it is at work, should that take a while. */
export async function loadVisibly(loader: Loader): Promise<Project> {
  const slow = setTimeout(() => process.stderr.write(colors.dim(`loading ${show(loader.file)} …\n`)), 1_000);
  try {
    return await loader.load();
  } finally {
    clearTimeout(slow);
  }
}

/** A command that only looks at a project ends when it has written. What the project has opened gets a moment to close. */
export async function leaveProject(project: Project | undefined): Promise<never> {
  if (project) await within(disposeMs, dispose(project.config), { onLate: () => {} });
  return leave();
}
export const disposeMs = 2_000;
