import { isObject } from "../../core/json.ts";

/**
 * Removes approvals that were not granted from parts with a result: the SDK accepts no other ones there. An agent that a tool
 * has asked continues after a denial, so that the call of the tool has a result.
 */
export function withGranted<T>(parts: readonly T[]): T[] {
  return parts.map((part) => {
    if (!isObject(part) || !isObject(part["approval"]) || part["approval"]["approved"] === true) return part;
    const { approval: _approval, ...rest } = part;
    return part["state"] === "output-available" || part["state"] === "output-error" ? (rest as T) : part;
  });
}
