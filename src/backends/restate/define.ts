import type { Backend } from "../../engine/contract/backend.ts";
import { RestateEngine } from "./engine.ts";
import { inspect } from "./inspect.ts";
import { findRisk, toSettings, type RestateBackendOptions } from "./options.ts";

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
