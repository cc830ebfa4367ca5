import { UserError } from "../../core/user-error.ts";
import type * as Restate from "@restatedev/restate-sdk";

export type RestateSdk = typeof Restate;

/** Loads the SDK, which is an optional peer dependency. */
export async function loadSdk(): Promise<RestateSdk> {
  try {
    return await import("@restatedev/restate-sdk");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw cause;
    throw new UserError("The Restate backend needs the Restate SDK, which is not installed", {
      hint: "npm install @restatedev/restate-sdk",
      cause,
    });
  }
}
