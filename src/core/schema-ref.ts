import { attempt } from "./attempt.ts";
import type { JsonSchema } from "./json-schema.ts";

/** Resolves a `$ref` inside a JSON Schema. Returns undefined for an external or a dangling reference. */
export function resolveRef(root: Readonly<JsonSchema>, ref: string): unknown {
  if (ref !== "#" && !ref.startsWith("#/")) return undefined;
  let found: unknown = root;
  for (const part of ref.split("/").slice(1)) {
    const key = decode(part);
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as JsonSchema)[key];
  }
  return found;
}

function decode(part: string): string {
  const plain = attempt(() => decodeURIComponent(part)) ?? part;
  return plain.replaceAll("~1", "/").replaceAll("~0", "~");
}
