import { H3, type H3Event, type HTTPError, type HTTPEvent } from "h3";
import { compareRoutes } from "rou3";
import type { AppTools, Config } from "../config/define.ts";
import { ConfigError } from "../config/error.ts";
import { clientLeft, notFound, ServeError, toErrorMessage } from "../core/error.ts";
import { createEnterBase } from "../http/path.ts";
import { isClientAbort } from "../http/body.ts";
import { toErrorEnvelope, type HeaderPairs } from "../http/envelope.ts";
import { createTable, type Table } from "../http/table.ts";
import type { BuiltInRoute } from "./built-in-routes.ts";
import { isCrossOrigin } from "./requests/origins.ts";

declare module "h3" {
  interface H3EventContext {
    [innerHandler]?: InnerHandler | undefined;
  }
}
/** With `cors: false`, the handler inside the host's middleware: the built-in route that matched, or a refusal. */
export interface InnerHandler {
  readonly isRefusal: boolean;
  run(): Promise<Response>;
}
export const innerHandler: unique symbol = Symbol("innerHandler");

export interface CustomAppOptions {
  readonly configureApp: Config["configureApp"];
  /** The second argument of `configureApp`. */
  readonly tools: AppTools;
  readonly basePath: string | undefined;
  readonly table: Table<BuiltInRoute>;
  readonly report: (error: unknown, requestId: string | undefined) => void;
}

export interface CustomParts {
  readonly custom: H3;
  /** The built-in routes without those that a custom route replaces. */
  readonly table: Table<BuiltInRoute>;
}

/** Creates the H3 app for `configureApp`: custom routes, middleware and error handler, with errors in our envelope. */
export function createCustomApp({ configureApp, tools, basePath, table: all, report }: CustomAppOptions): CustomParts {
  const app = new H3({ silent: true }); // h3 would print every error; `report` gets each hidden one once
  const mounted = skipPathsOnRefusal(app);
  configure(app, configureApp, tools);
  const table = withoutReplaced(all, app, mounted);
  for (const { method = "", route = "" } of app["~routes"]) {
    const builtIn = table.hides(method, route);
    if (builtIn) {
      throw new ConfigError(
        `configureApp: ${method} ${route} is unreachable: the built-in route ${builtIn.method} ${builtIn.path} matches first`,
      );
    }
  }
  // Innermost, so that with `cors: false` the host's middleware can set CORS headers on built-in routes.
  app.use((event, next) => event.context[innerHandler]?.run() ?? next());

  const { onRequest } = app.config;
  const enterBase = basePath === undefined ? undefined : createEnterBase(basePath);
  if (enterBase)
    app.config.onRequest = (event) => {
      enterBase(event);
      return onRequest?.(event);
    };

  const theirs = app.config.onError;
  app.config.onError = async (error, event) => {
    const { context } = event;
    const ours = unmatched(error, event as H3Event);
    let failed: unknown = ours ?? error;
    try {
      // The host's error handler covers custom routes and unknown paths, but not built-in routes or their 405.
      const isTheirs = !context[innerHandler] && ours?.status !== 405;
      const answer = isTheirs ? await theirs?.(error, event) : undefined;
      if (answer !== undefined) return answer;
    } catch (again) {
      failed = again; // h3 would respond outside the envelope
    }
    if (isClientAbort(failed, event.req)) failed = clientLeft();
    return toErrorEnvelope(failed, toKept(event), (hidden) => report(hidden, context.requestId)).toResponse();
  };
  return { custom: app, table };

  /** Returns a 404 or 405 for h3's own 404. Undefined for a 404 that the host threw. */
  function unmatched(error: HTTPError, event: H3Event): ServeError | undefined {
    if (error.status !== 404 || error.unhandled || event.context.matchedRoute) return;
    return methodNotAllowed(table, event.url.pathname);
  }
}

/** Removes the routes that yield to a custom route: to one of the same method and path, or to any below a path. */
function withoutReplaced(table: Table<BuiltInRoute>, app: H3, mounted: readonly string[]): Table<BuiltInRoute> {
  const custom = app["~routes"].map(({ method, route = "" }) => ({ method, path: route }));
  const paths = [...custom.map(({ path }) => path), ...mounted];
  const isReplaced = ({ method, path: own, yields }: BuiltInRoute): boolean => {
    if (typeof yields === "string") return paths.some((path) => path === yields || path.startsWith(`${yields}/`));
    return (
      yields === true &&
      custom.some((other) => (!other.method || other.method === method) && compareRoutes(other.path, own) === "equal")
    );
  };
  const kept = table.routes.filter((ours) => !isReplaced(ours));
  return kept.length === table.routes.length ? table : createTable(kept);
}

/** Returns the headers to keep on an error. h3 drops middleware headers, but a page must be able to read errors. */
function toKept({ res }: HTTPEvent & Partial<Pick<H3Event, "res">>): HeaderPairs {
  const { headers = new Headers(), errHeaders = new Headers() } = res ?? {};
  return [...[...headers].filter((pair) => isCrossOrigin(pair) && !errHeaders.has(pair[0])), ...errHeaders];
}

/**
 * With `cors: false`, a refused request also passes the host's middleware, for its CORS headers. Middleware for a path
 * may do more than set headers, so a refused request skips it. Returns the paths of the apps that the host mounts, filled
 * in when it does.
 */
function skipPathsOnRefusal(app: H3): readonly string[] {
  const mounted: string[] = [];
  const { use, mount } = app;
  const skipOnRefusal = (add: () => unknown): H3 => {
    const middleware = app["~middleware"];
    const before = middleware.length;
    add();
    const added = middleware.splice(before);
    middleware.push(
      ...added.map(
        (one): typeof one =>
          (event, next) =>
            event.context[innerHandler]?.isRefusal ? next() : one(event, next),
      ),
    );
    return app;
  };
  app.mount = (...args) => {
    mounted.push(args[0]);
    return skipOnRefusal(() => mount.apply(app, args));
  };
  app.use = (...args: unknown[]) => {
    const add = () => use.apply(app, args as Parameters<H3["use"]>);
    return args.length > 1 || typeof args[0] !== "function" ? skipOnRefusal(add) : (add(), app);
  };
  return mounted;
}

function configure(app: H3, configureApp: Config["configureApp"], tools: AppTools): void {
  let returned: unknown;
  try {
    returned = configureApp?.(app, tools);
  } catch (cause) {
    throw new ConfigError(`configureApp: ${toErrorMessage(cause)}`, { cause });
  }
  if (!(returned instanceof Promise)) return;
  returned.catch(() => {}); // the error below says enough
  throw new ConfigError("configureApp: must be synchronous, but it returned a promise", {
    hint: "use a top-level await in the config file",
  });
}

/** Returns a 405 with the methods of a built-in path, or a 404 if there is no such path. */
export function methodNotAllowed(table: Table<BuiltInRoute>, path: string): ServeError {
  const allowed = table.allowed(path);
  if (allowed.length === 0) return notFound();
  return new ServeError(405, "Method not allowed", { headers: [["allow", allowed.join(", ")]] });
}
