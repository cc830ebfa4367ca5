import { UserError } from "../../core/user-error.ts";
import type { Backend, Inspection } from "../../engine/contract/backend.ts";
import { RestateClient } from "./client/client.ts";
import { RestateEngine } from "./engine.ts";
import { countByStatus } from "./list/list.ts";
import { findRisk, toSettings, type RestateBackendOptions, type RestateSettings } from "./options.ts";
import { loadSdk } from "./sdk.ts";

export type { Backend } from "../../engine/contract/backend.ts";
export type { RestateBackendOptions, RestateServeOptions, RestateTimeouts } from "./options.ts";
export type { RetentionOptions } from "../../engine/retention.ts";

/** Stores and runs executions in a Restate cluster, on any number of replicas. */
export function restate(options: RestateBackendOptions): Backend {
  const settings = toSettings(options);
  return {
    type: "restate",
    settings: { ...settings },
    risk: findRisk(settings),
    inspect: ({ root }) => inspect(settings, root),
    open(parts) {
      const engine = new RestateEngine({ ...parts, ...settings });
      const { conversations, schedules, usage } = engine;
      return { engine, conversations, schedules, usage };
    },
  };
}

/** Reports about a cluster without registering this process. */
async function inspect(settings: RestateSettings, root: string): Promise<Inspection> {
  loadSdk(root);
  const { name, admin } = settings;
  const client = new RestateClient(settings);
  try {
    const [version, url, executions] = await Promise.all([
      client.version(),
      client.registeredUrl(),
      countByStatus(client),
    ]);
    const registered = url === undefined ? `${name} is not registered yet` : `${name} is registered at ${url}`;
    return { place: admin, facts: [`Restate ${version}`, registered], isInUse: false, executions };
  } catch (error) {
    const hint = "start Restate, or correct ingress and admin of restate()";
    throw new UserError(`Restate cannot be reached at ${admin}`, { hint, cause: error });
  }
}
