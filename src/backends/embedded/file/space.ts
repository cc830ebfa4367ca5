import { statfsSync } from "node:fs";
import { dirname } from "node:path";
import { attempt } from "../../../core/attempt.ts";
import { ServeError } from "../../../core/error.ts";
import type { Logger } from "../../../core/log.ts";

export interface SpaceOptions {
  readonly path: string;
  /** Max bytes of the store. @default 0: no limit */
  readonly storeBytes?: number | undefined;
  /** Min free bytes of its disk. @default 0: no limit */
  readonly storeFreeBytes?: number | undefined;
  /** Returns true if the store has this many bytes. */
  readonly hasBytes: (count: number) => boolean;
  readonly logger: Logger;
}

/** The space for new work. What began may always be written, up to the last byte of the disk. */
export class Space {
  readonly #options: SpaceOptions;
  #reason: string | undefined;
  #checkAt = 0;

  constructor(options: SpaceOptions) {
    this.#options = options;
  }

  get isFull(): boolean {
    const now = performance.now();
    if (now >= this.#checkAt) {
      this.#checkAt = now + 1_000;
      this.#update(this.#findReason());
    }
    return this.#reason !== undefined;
  }

  #update(reason: string | undefined): void {
    const { logger } = this.#options;
    if (reason !== undefined && this.#reason === undefined)
      logger.warn("The store is full: new executions and turns of conversations are refused", { reason });
    if (reason === undefined && this.#reason !== undefined) logger.info("The store has space again");
    this.#reason = reason;
  }

  #findReason(): string | undefined {
    const { path, storeBytes = 0, storeFreeBytes = 0, hasBytes } = this.#options;
    if (storeBytes > 0 && hasBytes(storeBytes)) return `limits.storeBytes (${storeBytes} bytes) is reached`;
    if (storeFreeBytes === 0 || path === ":memory:") return undefined;
    const disk = attempt(() => statfsSync(dirname(path)));
    // A file system that does not know its size reports 0 blocks.
    if (!disk || disk.blocks === 0 || disk.bavail * disk.bsize >= storeFreeBytes) return undefined;
    return `the disk has less than limits.storeFreeBytes (${storeFreeBytes} bytes) free`;
  }
}

export const storeFull = (hint: string): ServeError => new ServeError(507, `Storage is full: ${hint}`);
