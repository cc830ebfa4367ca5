import type { Config } from "../../src/config/define.ts";
import { constants, constantsKey, type Bounds } from "../../src/config/limits.ts";

/**
 * Returns a config with these limits, and with constants that no user can set: in process, and as the default export of a
 * config file. A file outside of the repository has constants under `[Symbol.for("agentserve.constants")]`.
 */
export function withBounds<C extends Config>(bounds: Partial<Bounds>, config: C): C {
  const isConstant = ([name]: [string, unknown]): boolean => Object.hasOwn(constants, name);
  const entries = Object.entries(bounds);
  const limits = Object.fromEntries(entries.filter((entry) => !isConstant(entry)));
  const server = { ...config.server, limits: { ...config.server?.limits, ...limits } };
  return { ...config, server, [constantsKey]: Object.fromEntries(entries.filter(isConstant)) };
}
