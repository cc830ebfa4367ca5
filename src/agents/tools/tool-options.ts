import { cut } from "../../core/cut.ts";
import { isObject } from "../../core/json.ts";

interface ToolOptions {
  description?: string;
  anonymous?: boolean;
}

/** Returns the options of a tool. Throws a `TypeError` if one is invalid or unknown. */
export function checkToolOptions<T extends ToolOptions>(name: string, options: T): T {
  if (!isObject(options)) throw new TypeError(`${name}: options: expected an object`);
  const { description, anonymous, ...rest } = options as ToolOptions;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw new TypeError(`${name}: unknown option "${cut(unknown)}"`);
  if (description !== undefined && (typeof description !== "string" || description === ""))
    throw new TypeError(`${name}: description: expected a text`);
  if (anonymous !== undefined && typeof anonymous !== "boolean")
    throw new TypeError(`${name}: anonymous: expected true or false`);
  return options;
}
