import type { HeaderPairs } from "./envelope.ts";

/** The CORS options of a server. */
export interface CorsOptions {
  /** The allowed origins, or a function that maps the origin of a request to the allowed one. @default "*" */
  origin?: string | string[] | ((origin: string) => string | undefined);
  /** The request headers that a page may send. @default the headers that the preflight asks for */
  allowHeaders?: string[];
  /** The methods that a page may use. @default the method that the preflight asks for */
  allowMethods?: string[];
  /** The response headers that a page may read, besides `x-request-id` and `x-execution-id`. @default [] */
  exposeHeaders?: string[];
  /** Seconds for which a browser may cache a preflight. @default the default of the browser */
  maxAge?: number;
  /** True to allow cookies and other credentials. Requires named origins. @default false */
  credentials?: boolean;
}
/** The headers of every response, the response to a preflight, and the origin check. */
export interface Cors {
  headers(request: Request): HeaderPairs;
  preflight(request: Request): Response | undefined;
  allows(origin: string): boolean;
  /** Returns true if the options name this origin. `*` names none. */
  names(origin: string): boolean;
}

const exposed = ["x-request-id", "x-execution-id"];
const off: Cors = { headers: () => [], preflight: () => undefined, allows: () => false, names: () => false };

export function createCors(options: CorsOptions | false | undefined): Cors {
  if (options === false) return off;
  const { origin = "*", credentials, allowHeaders, allowMethods, exposeHeaders = [], maxAge } = options ?? {};
  const allowsAll = allowsEveryOrigin(options);
  const named = new Set(typeof origin === "function" ? [] : [origin].flat());
  const allowed = typeof origin === "function" ? origin : (asked: string) => (named.has(asked) ? asked : undefined);

  const shared: HeaderPairs = credentials ? [["access-control-allow-credentials", "true"]] : [];
  const expose: HeaderPairs = [["access-control-expose-headers", [...exposed, ...exposeHeaders].join(", ")]];
  const forAllOrigins: HeaderPairs = [["access-control-allow-origin", "*"], ...shared];

  function grant(request: Request): HeaderPairs | undefined {
    if (allowsAll) return forAllOrigins;
    const asked = request.headers.get("origin");
    const granted = asked === null ? undefined : allowed(asked);
    return granted ? [["access-control-allow-origin", granted], ...shared] : undefined;
  }
  const vary: HeaderPairs = allowsAll ? [] : [["vary", "origin"]];

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
          allowMethods?.join(", ") ?? request.headers.get("access-control-request-method") ?? "",
        ]);
        if (allowHeaders) headers.push(["access-control-allow-headers", allowHeaders.join(", ")]);
        else if (wanted) headers.push(["access-control-allow-headers", wanted]);
        if (maxAge !== undefined) headers.push(["access-control-max-age", String(maxAge)]);
      }
      if (!allowHeaders) headers.push(["vary", "access-control-request-headers"]);
      return new Response(null, { status: 204, headers });
    },
    allows(asked) {
      // A function may return an origin other than the requesting one. A browser would refuse that response.
      const granted = allowsAll ? "*" : allowed(asked);
      return granted === "*" || granted === asked;
    },
    names: (asked) => asked !== "*" && allowed(asked) === asked,
  };
}

/** Returns true if the options allow every origin, whatever it is. A function may refuse one. */
export function allowsEveryOrigin({ origin = "*" }: CorsOptions = {}): boolean {
  return [origin].flat().includes("*");
}

export function isPreflight(request: Request): boolean {
  return (
    request.method === "OPTIONS" &&
    request.headers.has("origin") &&
    request.headers.has("access-control-request-method")
  );
}
