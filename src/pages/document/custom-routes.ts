import type { CustomRoute } from "../catalog.ts";

/** A path of OpenAPI, and the names of its parameters. */
export interface PathTemplate {
  readonly path: string;
  readonly params: readonly PathParameter[];
}
interface PathParameter {
  readonly name: string;
  /** True if the value may contain slashes. OpenAPI has no such parameters. */
  readonly isRest: boolean;
}

/** Converts a pattern of h3. Undefined if OpenAPI has no equivalent, such as for an optional group. */
export function toTemplate(pattern: string): PathTemplate | undefined {
  const params: PathParameter[] = [];
  function add(name: string, isRest: boolean): string {
    const unique = params.some((one) => one.name === name) ? `${name}${params.length + 1}` : name;
    params.push({ name: unique, isRest });
    return `{${unique}}`;
  }
  const path = pattern
    .replace(/(:\w+)\([^()/]*\)/g, "$1") // the constraint of a parameter
    .split("/")
    .map((segment) => {
      const [whole, rest = "path"] = /^\*\*(?::(\w+))?$/.exec(segment) ?? /^:(\w+)[+*]$/.exec(segment) ?? [];
      if (whole !== undefined) return add(rest, true);
      if (segment === "*") return add("segment", false);
      if (/[{}\\]/.test(segment)) return "?";
      return segment.replace(/:([A-Za-z_]\w*)\??/g, (_, name: string) => add(name, false));
    })
    .join("/");
  return /[?+*()]/.test(path) ? undefined : { path: path.startsWith("/") ? path : `/${path}`, params };
}

/** Returns the methods of a route as OpenAPI writes them. A route for every method has those that clients use. */
export function toMethods({ method }: CustomRoute): string[] {
  if (method === "") return ["get", "post", "put", "patch", "delete"];
  const lower = method.toLowerCase();
  return ["get", "put", "post", "delete", "options", "head", "patch", "trace"].includes(lower) ? [lower] : [];
}
