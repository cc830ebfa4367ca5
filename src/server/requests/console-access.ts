import type { Snapshot } from "../../config/snapshot.ts";
import { isReadOnly } from "../../console/options.ts";
import { consolePath, isConsoleRoute } from "../../console/routes.ts";
import { isTokenLike, type ConsoleSessions } from "../../console/sessions.ts";
import { admit, allowAll } from "../../core/access/authorizer.ts";
import { consoleCaller, unchecked, type Identity } from "../../core/caller.ts";
import { ServeError } from "../../core/error.ts";
import { createTable } from "../../http/table.ts";
import { tokenProtocol } from "../../sockets/socket.ts";
import type { BuiltInRoute } from "../built-in-routes.ts";

/**
 * The console's rules for requests, in one config version.
 *
 * A1 A session counts where a link exists, and only for requests that no page of another origin sends.
 * A2 Under a provider, a session is the caller `console`, who may do everything. Without one it opens `/console/api` only.
 * A3 The mark of the console's page, and a session, can only forbid: they ask for more rights, and none without them.
 * A4 `/console/api` answers no page of another origin, and sends no CORS headers.
 */
export interface ConsoleAccess {
  /** Returns true for a path of `/console/api`, in every spelling that reaches one of its routes. */
  isApi(path: string): boolean;
  /** Throws a 403 for a request from a page of another origin. */
  checkOrigin(request: Request, url: URL): void;
  /** Returns the identity of a session, or undefined for a request without one. Throws a 403 for another origin. */
  identify(request: Request, url: URL, isUpgrade: boolean): Identity | undefined;
  /** Rejects with 403 if the console may not send this request. */
  checkMark(request: Request, asked: MarkCheck): Promise<void>;
  /** Returns true for a request by which the page of `dev` only reads. The log and the traces are about the other ones. */
  isOwnRead(request: Request): boolean;
  /** Returns the snapshot that answers a caller. */
  viewFor(identity: Identity): Snapshot;
}
interface MarkCheck {
  readonly method: string;
  readonly route: BuiltInRoute | undefined;
  readonly identity: Identity;
}

/** The header of requests from the console's page. */
const mark = "x-agentserve-console";

export function createConsoleAccess(snapshot: Snapshot, sessions: ConsoleSessions | undefined): ConsoleAccess {
  const { auth, console: setting } = snapshot.config;
  const readOnly = isReadOnly(setting);
  // The router of the routes themselves, so that both read a path in the same way.
  const apis = createTable([{ method: "GET", path: `${consolePath}/api/**` }]);
  const session: Identity = auth
    ? { checked: true, ownership: false, caller: consoleCaller, isConsole: true }
    : { ...unchecked, isConsole: true };
  const view: Snapshot = { ...snapshot, authorizer: snapshot.authorizer ?? allowAll };

  return {
    isApi: (path) => sessions !== undefined && apis.find("GET", path) !== undefined,
    checkOrigin,
    identify(request, url, isUpgrade) {
      const isKnown = sessions && readTokens(request, url, isUpgrade).some((token) => sessions.has(token));
      if (!isKnown) return undefined;
      checkOrigin(request, url);
      return session;
    },
    async checkMark({ headers }, { method, route, identity }) {
      if (!headers.has(mark) && !identity.isConsole) return;
      if (route && isConsoleRoute(route)) return; // these ask for their rights themselves
      const isReading = method === "GET" || method === "HEAD";
      if (!isReading && readOnly) throw new ServeError(403, "The console is read-only");
      await admit({ action: "console.view", identity, snapshot }, undefined);
      if (!isReading) await admit({ action: "console.act", identity, snapshot }, undefined);
    },
    isOwnRead: ({ method, headers }) => sessions !== undefined && method === "GET" && headers.has(mark),
    viewFor: ({ isConsole, caller }) => (isConsole && caller ? view : snapshot),
  };
}

/** A page cannot set these headers. A program that is not a browser sends none of them. */
function checkOrigin({ headers }: Request, { host }: URL): void {
  const origin = headers.get("origin");
  const site = headers.get("sec-fetch-site");
  const isOwn = origin === null || (/^https?:\/\//.test(origin) && URL.parse(origin)?.host === host);
  if (!isOwn || site === "cross-site" || site === "same-site") throw new ServeError(403, "Origin not allowed");
}

/** Returns the texts that may be the token of a session. A WebSocket has it where a provider's token may be as well. */
function readTokens({ headers }: Request, { searchParams }: URL, isUpgrade: boolean): string[] {
  const [, bearer] = /^bearer +(\S+)$/i.exec(headers.get("authorization") ?? "") ?? [];
  const found = [bearer];
  if (isUpgrade) {
    const protocols = (headers.get("sec-websocket-protocol") ?? "").split(",").map((name) => name.trim());
    const at = protocols.indexOf(tokenProtocol);
    found.push(at < 0 ? undefined : protocols[at + 1], searchParams.get("token") ?? undefined);
  }
  return found.filter((token) => token !== undefined).filter(isTokenLike);
}
