import { H3Event } from "h3";
import { createGate, type Gate } from "../../auth/gate.ts";
import type { Snapshot } from "../../config/snapshot.ts";
import type { ConsoleSessions } from "../../console/sessions.ts";
import { unchecked, type Identity } from "../../core/caller.ts";
import type { Clock } from "../../core/clock.ts";
import { badRequest, ServeError } from "../../core/error.ts";
import type { Logger } from "../../core/log.ts";
import { runInScope } from "../../core/scope.ts";
import { createEnterBase, type EnterBase, checkPath } from "../../http/path.ts";
import type { Cors } from "../../http/cors.ts";
import { createRateLimit, type RateLimit } from "../../http/rate-limit.ts";
import type { BuiltInRoute } from "../built-in-routes.ts";
import { createConsoleAccess, type ConsoleAccess } from "./console-access.ts";
import { createHostCheck, createHostReader } from "./hosts.ts";
import { createOriginCheck, isForeign, isOwn } from "./origins.ts";

export interface GuardOptions {
  readonly snapshot: Snapshot;
  readonly cors: Cors;
  readonly mode: "dev" | "start";
  readonly logger: Logger;
  readonly clock?: Clock | undefined;
  /** False if this version does not serve the console. */
  readonly hasConsole: boolean;
  /** The sessions of the console. Undefined where no link signs in. */
  readonly sessions: ConsoleSessions | undefined;
}
/** The request whose caller is identified. A preflight asks about the method and the route of another request. */
export interface IdentifyRequest {
  readonly method: string;
  readonly route: BuiltInRoute | undefined;
  readonly requestId: string;
  readonly isUpgrade?: boolean;
}

/** The checks that a request passes before its route: host, path, origin, rate limit, token, console. */
export class RequestGuard {
  /** The rules of the console. Undefined if it is not served. */
  readonly console: ConsoleAccess | undefined;
  readonly #isHost = createHostReader();
  readonly #isOurHost: (host: string | null) => boolean;
  readonly #enterBase: EnterBase | undefined;
  readonly #checkOrigin: (origin: string | null) => void;
  readonly #rate: RateLimit | undefined;
  readonly #gate: Gate | undefined;

  constructor({ snapshot, cors, mode, logger, clock, hasConsole, sessions }: GuardOptions) {
    const { config, policy, authorizer } = snapshot;
    const { auth, server } = config;
    this.#isOurHost = mode === "dev" ? createHostCheck(server.allowedHosts) : () => true;
    this.#enterBase = server.basePath === undefined ? undefined : createEnterBase(server.basePath);
    this.#checkOrigin = createOriginCheck(cors, auth);
    this.#rate = server.rateLimit && createRateLimit(server.rateLimit, server.trustedProxies, clock);
    if (auth && policy)
      this.#gate = createGate(auth, {
        policy,
        ownership: auth.ownership === true && !authorizer?.isGlobal,
        report: (error) => logger.error("The authentication provider failed", { error }),
        clock,
      });
    this.console = hasConsole ? createConsoleAccess(snapshot, sessions) : undefined;
  }

  /** Returns h3's view of the request. Its URL has the path that both routers read, with needless escapes decoded. */
  toEvent(request: Request): H3Event {
    let event: H3Event;
    try {
      event = new H3Event(request);
    } catch (cause) {
      throw badRequest("Bad request", cause); // `/./x` with a Host that is not valid in a URL
    }
    const host = request.headers.get("host");
    if (host !== null && !this.#isHost(host)) throw badRequest("Bad request: invalid Host header");
    if (!this.#isOurHost(host ?? event.url.host)) throw new ServeError(403, "Host not allowed");
    checkPath(event.url.pathname);
    this.#enterBase?.(event);
    return event;
  }

  /** Rejects a request of another origin that may change data. */
  checkForeign({ req, url }: H3Event): void {
    if (isForeign(req, url)) this.#checkOrigin(req.headers.get("origin"));
  }

  /** Rejects a WebSocket of another origin. */
  checkSocket({ req, url }: H3Event): void {
    const origin = req.headers.get("origin");
    if (origin !== null && !isOwn(origin, url)) this.#checkOrigin(origin);
  }

  /**
   * Returns the identity of a request, by the matched route and by the path that both routers read. Throws the 401, and
   * the 429 of the rate limit.
   */
  async identify(
    { req, url }: H3Event,
    { method, route, requestId, isUpgrade = false }: IdentifyRequest,
  ): Promise<Identity> {
    const { pathname: path, searchParams: search } = url;
    if (!this.#gate && !this.#rate && !this.console) return unchecked;
    return runInScope({ requestId }, async () => {
      this.#rate?.checkAddress(req, path);
      const identity =
        this.console?.identify(req, url, isUpgrade) ??
        (await this.#gate?.(req, { method, path, search, route, isUpgrade })) ??
        unchecked;
      this.#rate?.checkCaller(req, path, identity.caller);
      await this.console?.checkMark(req, { method, route, identity });
      return identity;
    });
  }
}
