import { findConfig, loadProject, type Project } from "../config/load.ts";
import * as agentserve from "../index.ts";
import * as models from "../models.ts";

/** The project of this folder, or of the config asked for. Its files get the very modules that run here. */
export function openProject(config: string | undefined): Promise<Project> {
  return loadProject(findConfig(config, process.cwd()), { agentserve, "agentserve/models": models });
}
