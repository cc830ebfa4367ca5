import { cut } from "./cut.ts";

/** A value as a message shows it: texts in quotes, objects as JSON. */
export function quote(value: unknown): string {
  if (typeof value === "string") return cut(JSON.stringify(value));
  if (typeof value === "function") return "a function";
  if (typeof value !== "object" || value instanceof Date) return cut(String(value));
  try {
    return cut(JSON.stringify(value));
  } catch {
    return "an object";
  }
}
