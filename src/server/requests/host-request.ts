import { limitRequestBody } from "srvx/body-limit";

/**
 * Limits the body of a request once it is touched. `limitRequestBody` alone would cancel a body over the limit at once, and
 * the route of the request may have a higher limit.
 */
export function limitLater(request: Request, bytes: number): Request {
  let limited: Request | undefined;
  return new Proxy(request, {
    get(target, key) {
      const from = bodyKeys.has(key) ? (limited ??= limitRequestBody(target, bytes)) : target;
      const value: unknown = Reflect.get(from, key, from);
      return typeof value === "function" ? (value.bind(from) as unknown) : value;
    },
  });
}

const bodyKeys: ReadonlySet<string | symbol> = new Set([
  "body",
  "bodyUsed",
  "arrayBuffer",
  "blob",
  "bytes",
  "clone",
  "formData",
  "json",
  "text",
  "_request",
]);
