// oxlint-disable vitest/no-standalone-expect -- called inside of tests
import { expect, onTestFinished } from "vitest";
import { Host } from "../harness/start-host.ts";
import type { Dying } from "./engine.ts";

/** Runs a module until its engine has died. */
export async function die(module: string, options: Dying & Record<string, unknown>): Promise<void> {
  const host = new Host(module);
  onTestFinished(() => void host.child.kill("SIGKILL"));
  await expect(host.start(options)).rejects.toThrow("ended with SIGKILL");
}
