import { join } from "node:path";
import * as agentserve from "../../../src/index.ts";
import * as models from "../../../src/models.ts";
import { createLoader, toProject, type Project } from "../../../src/config/load.ts";
import { openServer } from "../../../src/server/create.ts";
import { hostile } from "../../pages/hostile.ts";

const { embedded, jwtAuth } = agentserve;
const starter = join(import.meta.dirname, "../../../templates/starter/agents.config.ts");
const auth = jwtAuth({ secret: "a secret of at least thirty-two bytes", publicRoutes: ["POST /workflows/a.b/*"] });

/** The configs whose documents the tools read. */
export const projects: Readonly<Record<string, () => Project | Promise<Project>>> = {
  "an empty config": () => toProject({}),
  "the starter template": () => createLoader(starter, { agentserve, "agentserve/models": models }).load(),
  "a hostile config": () => toProject(hostile),
  "a hostile config with a provider": () =>
    toProject({
      ...hostile,
      auth,
      server: { cors: { origin: "http://a.test" }, rateLimit: { limit: 9, window: "1m" } },
    }),
};

/** Returns the document of a config. */
export async function readDocument(project: Project): Promise<string> {
  const config = { ...project.config, backend: embedded({ path: ":memory:" }) };
  const quiet = () => {};
  const logger = { trace: quiet, debug: quiet, info: quiet, warn: quiet, error: console.error, fatal: console.error };
  const server = openServer({ ...project, config }, { mode: "start", logger });
  const response = await server.fetch(new Request("http://localhost/doc"));
  const text = await response.text();
  await server.close();
  return text;
}
