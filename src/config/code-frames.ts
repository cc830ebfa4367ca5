import { realpathSync } from "node:fs";
import { relative, resolve, sep } from "node:path";
import { attempt } from "../core/attempt.ts";
import { findCalls } from "./find-place.ts";
import { toFrame } from "./frame.ts";
import { isOwnFile } from "./own-file.ts";

/** Max frames, and max characters of all frames together. The oldest are dropped. */
export const maxFrames = 1_000;
export const maxFrameText: number = 1024 * 1024;
/** Max characters of a code line. */
const columns = 160;

/**
 * The code around the lines at which attempts have failed, for `dev`. A frame is made when the attempt fails: its file may
 * change later.
 *
 * F1. Frames are in memory only. They are neither stored nor logged.
 * F2. A frame has lines of one project file. The stack of an error may have any text, so its path is resolved, with symbolic
 *     links, before the file is read.
 */
export class CodeFrames {
  readonly #root: string;
  readonly #realRoot: string;
  readonly #frames = new Map<string, string>();
  #length = 0;

  constructor(root: string) {
    this.#root = root;
    this.#realRoot = attempt(() => realpathSync(root)) ?? root;
  }

  readonly add = (executionId: string, key: string, error: unknown): void => {
    const frame = attempt(() => this.#toFrame(error));
    if (frame === undefined) return;
    const id = toId(executionId, key);
    this.#remove(id);
    this.#frames.set(id, frame);
    this.#length += frame.length;
    for (const oldest of this.#frames.keys()) {
      if (this.#frames.size <= maxFrames && this.#length <= maxFrameText) break;
      this.#remove(oldest);
    }
  };

  readonly find = (executionId: string, key: string): string | undefined => this.#frames.get(toId(executionId, key));

  #remove(id: string): void {
    this.#length -= this.#frames.get(id)?.length ?? 0;
    this.#frames.delete(id);
  }

  #toFrame(error: unknown): string | undefined {
    const [place] = findCalls(error, this.#root, 1);
    if (!place) return undefined;
    const root = this.#realRoot;
    const file = realpathSync(resolve(place.file));
    if (!file.startsWith(root + sep) || !isOwnFile(file, root) || !isSource.test(file)) return undefined;
    const code = toFrame({ ...place, file }, columns);
    return code && `${relative(root, file)}:${place.line}:${place.column}\n${code}`;
  }
}

const isSource = /\.[cm]?[jt]sx?$/;
const toId = (executionId: string, key: string): string => `${executionId}/${key}`;
