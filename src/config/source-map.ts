import { readFileSync } from "node:fs";
import { SourceMap, type SourceMapPayload } from "node:module";
import { createJiti } from "jiti";
import { attempt } from "../core/attempt.ts";
import type { Place } from "./error.ts";

/**
 * Converts a place in the code that jiti has compiled to the place in its source. The lines are the same, but types and
 * imports move the columns. The file is compiled again for this, because jiti's code has no source map that Node reads.
 */
export function toSource<P extends Place>(place: P): P {
  const { file, line, column } = place;
  if (column === undefined || !/\.[cm]?[jt]sx?$/.test(file)) return place;
  const found = attempt(() => mapOf(file)?.findOrigin(line, column));
  return found && "lineNumber" in found ? { ...place, line: found.lineNumber, column: found.columnNumber } : place;
}

/** The last files that had an error, by their text: the same error may occur often. */
const kept = new Map<string, { source: string; map: SourceMap | undefined }>();
const mostKept = 8;

function mapOf(file: string): SourceMap | undefined {
  const source = readFileSync(file, "utf8");
  const known = kept.get(file);
  if (known?.source === source) return known.map;
  const map = attempt(() => compile(file, source));
  kept.delete(file);
  kept.set(file, { source, map });
  for (const oldest of kept.keys()) if (kept.size > mostKept) kept.delete(oldest);
  return map;
}

function compile(filename: string, source: string): SourceMap | undefined {
  const jiti = createJiti(filename, { interopDefault: false, fsCache: false, sourceMaps: true });
  const ts = /\.[cm]?tsx?$/.test(filename);
  const code = jiti.transform({ source, filename, ts, async: true, retainLines: true });
  const [, encoded] = /\/\/# sourceMappingURL=data:[^,]*;base64,(\S+)\s*$/.exec(code) ?? [];
  if (!encoded) return undefined;
  return new SourceMap(JSON.parse(Buffer.from(encoded, "base64").toString()) as SourceMapPayload);
}
