import { stripVTControlCharacters } from "node:util";
import * as v from "valibot";
import type { Action } from "../core/access/authorize.ts";
import { admit, type Authorized } from "../core/access/authorizer.ts";
import type { Identity } from "../core/caller.ts";
import { ServeError } from "../core/error.ts";
import { Reply, type HeaderPairs } from "../http/envelope.ts";
import { defineRoute, nothing, page, type Access, type Route } from "../http/route.ts";
import type { ConsoleFiles } from "./assets.ts";
import { isReadOnly, type ConsoleSetting } from "./options.ts";
import { toBase, toConsolePage } from "./page.ts";
import type { ConsoleSessions } from "./sessions.ts";

/** The part of a snapshot that the console reads. */
interface ConsoleSnapshot extends Authorized {
  readonly config: { readonly console?: ConsoleSetting; readonly auth?: object | undefined };
}
export interface ConsoleParts {
  readonly mode: "dev" | "start";
  readonly version: string;
  readonly files: ConsoleFiles;
  /** Undefined where no link signs in: in `start`, and on an address that others can reach. */
  readonly sessions: ConsoleSessions | undefined;
  /** Returns the error of the last reload, if it failed. */
  readonly problem: () => ReloadProblem | undefined;
  /** Returns every route of the config version that answers a request. */
  readonly routes: (snapshot: { readonly config: object }) => readonly ConsoleRoute[];
}
interface ReloadProblem {
  readonly message: string;
  readonly hint?: string | undefined;
  readonly frame?: string | undefined;
  readonly since: string;
}
interface ConsoleRoute {
  readonly method: string;
  readonly path: string;
  readonly access: Access;
  readonly why: string;
  readonly except: readonly string[];
  readonly action?: Action | undefined;
  readonly from: "agentserve" | "configureApp";
}

const SessionShape = v.object({
  user: v.nullable(v.object({ id: v.string() })),
  canAct: v.boolean(),
  readOnly: v.boolean(),
  mode: v.picklist(["dev", "start"]),
  version: v.string(),
  isSignedInByLink: v.boolean(),
  auth: v.boolean(),
});
const ProblemShape = v.object({
  message: v.string(),
  hint: v.optional(v.string()),
  frame: v.optional(v.string()),
  since: v.string(),
});
const RouteShape = v.object({
  method: v.string(),
  path: v.string(),
  access: v.picklist(["public", "protected"]),
  why: v.string(),
  except: v.array(v.string()),
  action: v.nullable(v.string()),
  isCustom: v.boolean(),
});

/** The path of the console. All of its routes yield to a host that has a route at or below it. */
export const consolePath = "/console";
const common = { yields: consolePath, needsStore: false } as const;

/** Returns true for a route of the console itself. */
export const isConsoleRoute = ({ path }: { readonly path: string }): boolean =>
  path === consolePath || path.startsWith(`${consolePath}/`);

/** Returns true for a route of `/console/api`, which only `dev` has. */
export const isConsoleApi = ({ path }: { readonly path: string }): boolean => path.startsWith(`${consolePath}/api/`);

/** The entries that `publicRoutes` begins with: files without data, and the exchange of the link. */
export const consoleEntries: readonly string[] = [
  "GET /console",
  "GET /console/assets/:file",
  "POST /console/api/session",
];

/** The routes of the console. Those of `/console/api` exist only where a link signs in. */
export function consoleRoutes(parts: ConsoleParts): readonly Route<ConsoleSnapshot>[] {
  const { mode, version, files, sessions } = parts;
  return [
    defineRoute({
      method: "GET",
      path: "/console",
      summary: "The console: a page that shows and controls this server",
      description: "HTML for a browser, without data.",
      access: "public",
      ...common,
      responses: { 200: page("text/html") },
      errors: { 404: "The files of the console are missing" },
      handle: ({ request }) => toConsolePage(files, toBase(request)),
    }),
    defineRoute({
      method: "GET",
      path: "/console/assets/:file",
      summary: "A file of the console",
      description: "`console.js` or `console.css`. With the current `v`, it never changes.",
      access: "public",
      ...common,
      query: v.object({ v: v.optional(v.string()) }),
      responses: { 200: page("text/css, text/javascript"), 304: nothing },
      errors: { 404: "There is no such file" },
      handle: ({ params, query, request }) => files.serve(params.file, request, query.v),
    }),
    defineRoute({
      method: "GET",
      path: "/console/session",
      summary: "The caller of the console, and the rights of the caller",
      access: "protected",
      action: "console.view",
      ...common,
      responses: { 200: SessionShape },
      find: ({ action, identity, snapshot }) => admit({ action, identity, snapshot }, undefined),
      async handle({ identity, snapshot }) {
        const { caller, isConsole: isSignedInByLink = false } = identity;
        const readOnly = isReadOnly(snapshot.config.console);
        const canAct = !readOnly && (await mayAct(identity, snapshot));
        const user = caller?.userId === undefined ? null : { id: caller.userId };
        const auth = snapshot.config.auth !== undefined;
        const session = { user, canAct, readOnly, mode, version, isSignedInByLink, auth };
        return new Reply(session, { headers: toUncached(identity) });
      },
    }),
    ...(sessions ? apiRoutes(sessions, parts) : []),
  ];
}

function apiRoutes(sessions: ConsoleSessions, { problem, routes }: ConsoleParts): readonly Route<ConsoleSnapshot>[] {
  return [
    defineRoute({
      method: "POST",
      path: "/console/api/session",
      summary: "Exchange the token of the link for a session of the console",
      description: "The link works once. The session ends with the process.",
      access: "public",
      ...common,
      body: v.object({ token: v.string() }),
      responses: { 200: v.object({ token: v.string() }) },
      errors: { 401: "The link was used or is not valid", 403: foreign },
      handle({ body, identity }) {
        const token = sessions.exchange(body.token);
        if (token === undefined) throw toRefusal(usedLink);
        return new Reply({ token }, { headers: toUncached(identity) });
      },
    }),
    defineRoute({
      method: "GET",
      path: "/console/api/problem",
      summary: "The error of the last save that could not be loaded",
      access: "protected",
      ...common,
      responses: { 200: v.object({ problem: v.nullable(ProblemShape) }) },
      errors: { 401: noSession, 403: foreign },
      find: ({ identity }) => checkSession(identity),
      handle({ identity }) {
        const found = problem();
        // The text may be formatted for a terminal.
        const plain =
          found && Object.entries(found).map(([name, text]) => [name, text && stripVTControlCharacters(text)]);
        return new Reply({ problem: plain ? Object.fromEntries(plain) : null }, { headers: toUncached(identity) });
      },
    }),
    defineRoute({
      method: "GET",
      path: "/console/api/routes",
      summary: "Every route and its access, as agentserve routes lists them",
      access: "protected",
      ...common,
      responses: { 200: v.object({ routes: v.array(RouteShape) }) },
      errors: { 401: noSession, 403: foreign },
      find: ({ identity }) => checkSession(identity),
      handle({ identity, snapshot }) {
        const listed = routes(snapshot).map(({ method, path, access, why, except, action = null, from }) => {
          return { method, path, access, why, except, action, isCustom: from === "configureApp" };
        });
        return new Reply({ routes: listed }, { headers: toUncached(identity) });
      },
    }),
  ];
}

const foreign = "The request comes from a page of another origin";
const noSession = "A session of the console is required";
const usedLink = "This link has been used or is not valid: open the newest one that agentserve dev has printed";

function checkSession({ isConsole }: Identity): void {
  if (!isConsole) throw toRefusal(`${noSession}: open the link that agentserve dev has printed`);
}

const toRefusal = (message: string): ServeError =>
  new ServeError(401, message, { headers: [["www-authenticate", "Bearer"]] });

async function mayAct(identity: Identity, { authorizer }: Authorized): Promise<boolean> {
  return (await authorizer?.ask({ action: "console.act", user: identity.caller?.user })) ?? true;
}

/** The server sets the header itself on the response to a caller. */
const toUncached = ({ caller }: Identity): HeaderPairs => (caller ? [] : [["cache-control", "no-store"]]);
