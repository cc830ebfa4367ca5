import { openSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../src/config/define.ts";
import type { Logger } from "../../src/core/log.ts";
import type { ServerParts } from "../../src/server/assemble.ts";
import type { Server } from "../../src/server/create.ts";

/** The server that `host.ts` opens: what the default function of a module returns. */
export interface Hosted extends Partial<ServerParts> {
  readonly config: Config;
  /** Called when the server listens, before the test is told. */
  onListening?(server: Server): unknown;
  /** Carries out the orders of the test. A result is sent back. */
  readonly orders?: Readonly<Record<string, (value: any, server: Server) => unknown>>;
}

/** Returns the config for the options of the test. `report` sends a message to the test. Undefined: there is no server. */
export type CreateHosted = (options: any, report: (message: unknown) => void) => Hosted | Promise<Hosted | void>;

/** Messages of a test to its host. */
export type ToHost =
  | { readonly start: unknown }
  | { readonly order: string; readonly value: unknown; readonly id: number };

/** Messages of a host to its test. */
export type FromHost =
  | { readonly url: string }
  | { readonly reply: unknown; readonly id: number }
  | { readonly report: unknown };

/** The memory of a host after a collection. */
export interface Memory {
  /** The heap, and what it refers to outside of it. */
  readonly heap: number;
  readonly rss: number;
}

/** Returns a function that appends a line to the file `log` of a folder. Synchronous: the line is there if it has happened. */
export function createLog(folder: string): (line: string) => void {
  const file = openSync(join(folder, "log"), "a");
  return (line) => void writeSync(file, `${line}\n`);
}

/** A logger that hands on warnings and errors. */
export function createComplaintLogger(complain: (message: string, data?: Record<string, unknown>) => void): Logger {
  const ignore = (): void => {};
  return { trace: ignore, debug: ignore, info: ignore, warn: complain, error: complain, fatal: complain };
}
