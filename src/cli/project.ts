import { findConfig, loadProject, type Project } from "../config/load.ts";
import * as agentserve from "../index.ts";
import * as models from "../models.ts";

/** The project of this folder, or of the config asked for. Its files get the very modules that run here. */
export function openProject(config: string | undefined): Promise<Project> {
  return loadProject(findConfig(config, process.cwd()), { agentserve, "agentserve/models": models });
}

/** A command that only looks at a project ends when it has written, whatever the project's files keep open. */
export async function leaveProject(project: Project | undefined): Promise<never> {
  await project?.config.onDispose?.();
  for (const stream of [process.stdout, process.stderr]) await new Promise((done) => stream.write("", done));
  process.exit();
}
