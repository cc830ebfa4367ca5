import { createRequire } from "node:module";
import { attempt } from "../core/attempt.ts";
import { toObject } from "../core/json.ts";

export type Sdk = typeof import("ai");

/** The message if the project does not have the AI SDK, a peer dependency. Workflows without agents do not need it. */
export const missingSdk = {
  message: "agents need the package ai, which is not installed",
  hint: "npm install ai@7",
} as const;

/** Returns the problem of a project with another major version of the AI SDK. Undefined if there is no version. */
export function findWrongSdk(): { readonly message: string; readonly hint: string } | undefined {
  const { version } = toObject(attempt(() => createRequire(import.meta.url)("ai/package.json")));
  if (typeof version !== "string" || version.startsWith("7.")) return undefined;
  return {
    message: `agents need version 7 of the package ai, found ${version}`,
    hint: `${missingSdk.hint} under Node 22 or newer: under Node 20, npm installs ai 6`,
  };
}

let loading: Promise<Sdk> | undefined;

/** Loads the AI SDK. Loading takes about 170 ms, so it is deferred to the first call of an agent. */
export function loadSdk(): Promise<Sdk> {
  // Stops the SDK from printing warnings of a model to the console. They are logged instead.
  globalThis.AI_SDK_LOG_WARNINGS ??= false;
  return (loading ??= import("ai").catch((error: unknown) => {
    const { code, message = "" } = error as { code?: string; message?: string };
    if (code !== "ERR_MODULE_NOT_FOUND" || !message.includes("'ai'")) throw error;
    throw new Error(`${missingSdk.message}: run "${missingSdk.hint}", then restart the server`, { cause: error });
  }));
}
