import { createRequire } from "node:module";
import { join } from "node:path";
import type * as Restate from "@restatedev/restate-sdk";
import { attempt } from "../../core/attempt.ts";
import { UserError } from "../../core/user-error.ts";

export type RestateSdk = typeof Restate;

/** Loads the SDK, which is an optional peer dependency, from the packages of the project. */
export function loadSdk(root: string): RestateSdk {
  const require = createRequire(join(root, "agents.config.ts"));
  const file = attempt(() => require.resolve("@restatedev/restate-sdk"));
  if (file !== undefined) return require(file) as RestateSdk;
  throw new UserError("The Restate backend needs the Restate SDK, which is not installed", {
    hint: "npm install @restatedev/restate-sdk",
  });
}
