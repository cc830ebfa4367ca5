import { firstStamps } from "./plan.ts";
import { toStamp } from "./project.ts";

export type Stamps = Readonly<Record<string, string>>;

interface Version {
  readonly stamps: Stamps;
  readonly writtenAt: number;
  reportedAt: number;
}

/** The versions of the project in their order, and from when to when each may be seen. */
export class History {
  readonly #versions: Version[] = [{ stamps: firstStamps, writtenAt: 0, reportedAt: 0 }];

  get current(): Stamps {
    return this.#versions.at(-1)!.stamps;
  }

  /** The files with these stamps are about to be written. */
  written(names: readonly string[], save: number): void {
    const stamps = { ...this.current, ...Object.fromEntries(names.map((name) => [name, toStamp(save)])) };
    this.#versions.push({ stamps, writtenAt: performance.now(), reportedAt: Infinity });
  }

  reported(at: number): void {
    this.#versions.at(-1)!.reportedAt = at;
  }

  /**
   * Whether a version that was current between these two moments says this. Until its report, a save of several files may
   * be seen file by file.
   */
  allows(stamps: Stamps, from: number, to: number): boolean {
    return this.#versions.some((version, index) => {
      const before = this.#versions[index - 1];
      const next = this.#versions[index + 1];
      if (version.writtenAt > to || (next && next.reportedAt < from)) return false;
      const isMixed = before && from <= version.reportedAt;
      return Object.entries(stamps).every(
        ([name, stamp]) => stamp === version.stamps[name] || (isMixed && stamp === before.stamps[name]),
      );
    });
  }
}

/** What of an answer its files were stamped with. `load` tells apart versions that say the same. */
export function toStamps(answer: Record<string, unknown>): Stamps {
  const entries = Object.entries(answer).filter(([name]) => name in firstStamps);
  if (entries.length < 5) throw new Error(`no stamps in ${JSON.stringify(answer)}`);
  return Object.fromEntries(entries) as Stamps;
}

/** Those of the current version that this answer can know of. */
export function toExpected(answer: Stamps, current: Stamps): Stamps {
  return Object.fromEntries(Object.keys(answer).map((name) => [name, current[name]!]));
}
