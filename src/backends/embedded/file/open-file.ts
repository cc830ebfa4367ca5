import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Logger } from "../../../core/log.ts";
import { format } from "../store/sql.ts";
import { Store } from "../store/store.ts";
import { createPrivately, makePrivate } from "./data-file.ts";
import { holdFile, isHeld, whenFree, type WaitOptions } from "./lock.ts";
import { findHolder, toHolderText } from "./holder.ts";

interface FileOptions {
  readonly path: string;
  readonly durability: "normal" | "full";
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called once, if another process has the file: it is waited for. */
  readonly onWaiting?: (() => void) | undefined;
  /** Called with the unlock function once this process holds the lock. */
  readonly onLocked: (unlock: () => void) => void;
}

/** Opens the data file, once no other process has it, and migrates it. */
export async function openFile({ path, durability, logger, signal, ...calls }: FileOptions): Promise<Store> {
  const onWait = (): void => {
    const holder = isHeld(path) ? "A server that is closing" : `Another process${toHolderText(findHolder(path))}`;
    logger.info(`${holder} is using the store: waiting until it is free`);
    calls.onWaiting?.();
  };
  const waiting: WaitOptions = { waitMs: 15_000, onWait, signal };
  if (path !== ":memory:") {
    prepareFolder(dirname(path));
    createPrivately(`${path}-lock`);
    calls.onLocked(await whenFree(() => holdFile(path, signal), waiting));
    createPrivately(path);
  }
  const store = await whenFree(() => new Store(path, durability), waiting);
  const { formerFormat } = store;
  if (formerFormat === 0 || formerFormat === format) return store;
  logger.info(`The data file was migrated from format ${formerFormat} to ${format}`);
  // Only once: access that is granted to others later stays.
  if (makePrivate(path)) logger.info("The data file can now be read by its owner only");
  return store;
}

/** Creates the folder of the file, for its owner only, and keeps it out of version control. An existing one stays as it is. */
function prepareFolder(folder: string): void {
  if (existsSync(folder)) return;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, ".gitignore"), "*\n");
}
