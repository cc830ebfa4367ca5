import type { HeaderPairs } from "./envelope.ts";

export interface CorsOptions {
  /** Allowed origins, or a function from the asking origin to the allowed one. @default "*" */
  origin?: string | string[] | ((origin: string) => string | undefined);
  /** @default what the browser asks for */
  allowHeaders?: string[];
  /** @default what the browser asks for */
  allowMethods?: string[];
  exposeHeaders?: string[];
  /** Seconds that a browser may remember a preflight. */
  maxAge?: number;
  /** Needs named origins. @default false */
  credentials?: boolean;
}
/** The headers of every response, the answer to a preflight, and who may open a socket. */
export interface Cors {
  headers(request: Request): HeaderPairs;
  preflight(request: Request): Response | undefined;
  allows(origin: string): boolean;
}

const exposed = ["x-request-id", "x-execution-id"];
const off: Cors = { headers: () => [], preflight: () => undefined, allows: () => false };

export function createCors(options: CorsOptions | false | undefined): Cors {
  if (options === false) return off;
  const { origin = "*", credentials, allowHeaders, allowMethods, exposeHeaders = [], maxAge } = options ?? {};
  const anybody = [origin].flat().includes("*");
  const named = new Set(typeof origin === "function" ? [] : [origin].flat());
  const allowed = typeof origin === "function" ? origin : (asked: string) => (named.has(asked) ? asked : undefined);

  const shared: HeaderPairs = credentials ? [["access-control-allow-credentials", "true"]] : [];
  const expose: HeaderPairs = [["access-control-expose-headers", [...exposed, ...exposeHeaders].join(", ")]];
  const forAnybody: HeaderPairs = [["access-control-allow-origin", "*"], ...shared];

  function grant(request: Request): HeaderPairs | undefined {
    if (anybody) return forAnybody;
    const asked = request.headers.get("origin");
    const granted = asked === null ? undefined : allowed(asked);
    return granted ? [["access-control-allow-origin", granted], ...shared] : undefined;
  }
  const vary: HeaderPairs = anybody ? [] : [["vary", "origin"]];

  return {
    headers(request) {
      const granted = grant(request);
      return granted ? [...granted, ...expose, ...vary] : vary;
    },
    preflight(request) {
      if (!isPreflight(request)) return;
      const headers: HeaderPairs = [...vary];
      const granted = grant(request);
      if (granted) {
        const wanted = request.headers.get("access-control-request-headers");
        headers.push(...granted);
        headers.push([
          "access-control-allow-methods",
          allowMethods?.join(", ") ?? request.headers.get("access-control-request-method")!,
        ]);
        if (allowHeaders) headers.push(["access-control-allow-headers", allowHeaders.join(", ")]);
        else if (wanted) headers.push(["access-control-allow-headers", wanted]);
        if (maxAge !== undefined) headers.push(["access-control-max-age", String(maxAge)]);
      }
      if (!allowHeaders) headers.push(["vary", "access-control-request-headers"]);
      return new Response(null, { status: 204, headers });
    },
    allows(asked) {
      // A function may name another origin than the one that asks: a browser would refuse that answer.
      const granted = anybody ? "*" : allowed(asked);
      return granted === "*" || granted === asked;
    },
  };
}

export function isPreflight(request: Request): boolean {
  return (
    request.method === "OPTIONS" &&
    request.headers.has("origin") &&
    request.headers.has("access-control-request-method")
  );
}
