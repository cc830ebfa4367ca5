import { readFileSync, statSync, type Stats } from "node:fs";
import { SourceMap, type SourceMapPayload } from "node:module";
import { dirname, join } from "node:path";
import { createJiti } from "jiti";
import { attempt } from "../core/attempt.ts";
import type { Place } from "./error.ts";

/**
 * Converts a place in the code that jiti has compiled to the place in its source. The lines are the same, but types and
 * imports move the columns. Node does not read the source maps of jiti. They are in its cache; without a cache, the file is
 * compiled again.
 */
export function toSource<P extends Place>(place: P, root: string): P {
  const { file, line, column } = place;
  if (column === undefined || !/\.[cm]?[jt]sx?$/.test(file)) return place;
  const found = attempt(() => mapOf(file, root)?.findOrigin(line, column));
  return found && "lineNumber" in found ? { ...place, line: found.lineNumber, column: found.columnNumber } : place;
}

/** The last files that had an error, by their text: the same error may occur often. */
export const keptMaps: Map<string, { source: string; map: SourceMap | undefined }> = new Map();
export const maxKeptMaps = 8;

function mapOf(file: string, root: string): SourceMap | undefined {
  const source = readFileSync(file, "utf8");
  const known = keptMaps.get(file);
  if (known?.source === source) return known.map;
  const map = attempt(() => compile(file, source, root));
  keptMaps.delete(file);
  keptMaps.set(file, { source, map });
  for (const oldest of keptMaps.keys()) if (keptMaps.size > maxKeptMaps) keptMaps.delete(oldest);
  return map;
}

function compile(filename: string, source: string, root: string): SourceMap | undefined {
  const jiti = createJiti(filename, { interopDefault: false, fsCache: toCacheFolder(root), sourceMaps: true });
  const ts = /\.[cm]?tsx?$/.test(filename);
  const code = jiti.transform({ source, filename, ts, async: true, retainLines: true });
  const [, encoded] = /\/\/# sourceMappingURL=data:[^,]*;base64,([\w+/=]+)/.exec(code) ?? [];
  if (!encoded) return undefined;
  return new SourceMap(JSON.parse(Buffer.from(encoded, "base64").toString()) as SourceMapPayload);
}

/**
 * Returns the folder of compiled files. They are code: they are cached beside the packages, never in a folder that other
 * users can write to.
 */
export function toCacheFolder(root: string): string | false {
  for (let folder = root; ; folder = dirname(folder)) {
    const packages = join(folder, "node_modules");
    const found = statSync(packages, { throwIfNoEntry: false });
    if (found) return isPrivate(found) && join(packages, ".cache", "agentserve");
    if (folder === dirname(folder)) return false;
  }
}

const isPrivate = ({ uid, mode }: Stats): boolean =>
  process.getuid === undefined || ([0, process.getuid()].includes(uid) && (mode & 0o002) === 0);
