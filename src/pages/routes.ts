import { createHash } from "node:crypto";
import * as v from "valibot";
import type { Identity } from "../core/caller.ts";
import { allowsEveryOrigin } from "../http/cors.ts";
import { Page, toPage } from "../http/envelope.ts";
import { toPageHeaders } from "../http/page.ts";
import { createPublicUrlReader, type PublicUrl, type PublicUrlReader } from "../http/public-url.ts";
import { defineRoute, page, type Route } from "../http/route.ts";
import { toNeedsToken, toVisibleEntries, toVisibleRoutes, type Catalog, type AnyRoute } from "./catalog.ts";
import type { Html } from "./html.ts";
import { style } from "./landing-style.ts";
import { toLandingPage, toLists } from "./landing.ts";
import { toOpenApi } from "./document/openapi.ts";
import type { Problem } from "./problem.ts";
import { createUiFiles, fileNames, toUiPage } from "./ui.ts";

export interface PageParts {
  readonly version: string;
  /** The routes whose access the pages show. */
  readonly routes: readonly AnyRoute[];
  /** Returns the error of the last reload, if it failed. */
  readonly problem?: (() => Problem | undefined) | undefined;
  /**
   * The page of the console, for a browser that asks for `GET /` where the console is served. Undefined for other clients.
   * `link` is the start of its relative links.
   */
  readonly home?: ((request: Request, link: string) => Promise<Page | undefined>) | undefined;
}

const UiQuery = v.object({ file: v.optional(v.picklist(fileNames)), v: v.optional(v.string()) });

/** The routes of the HTML pages: `GET /` and `GET /ui`. */
export function pageRoutes({ version, routes, problem = () => undefined, home }: PageParts): readonly Route<Catalog>[] {
  const kept = { known: new WeakMap<Catalog, Lists>(), unknown: new WeakMap<Catalog, Lists>() };
  const toPublicUrl = createPublicUrls();
  const read = createUiFiles();
  const hasHome = ({ replaced }: Catalog): boolean => home !== undefined && !replaced.has("GET /console");
  const toHome = async ({ request, snapshot }: HomeRequest): Promise<Page | undefined> =>
    hasHome(snapshot) ? home?.(request, toLink(request, snapshot)) : undefined;
  return [
    defineRoute({
      method: "GET",
      path: "/",
      summary: "Landing page: agents, workflows and how to call them",
      description: "HTML for a browser, which gets the console where it is on.",
      access: "public",
      responses: { 200: page("text/html") },
      refused: toHome, // the page of the console has no data
      async handle(asked) {
        const found = await toHome(asked);
        return found ?? toLanding(asked, hasHome(asked.snapshot) ? { vary: "accept" } : {});
      },
    }),
    defineRoute({
      method: "GET",
      path: "/ui",
      summary: "Swagger UI: try out the operations of this document",
      description: "HTML for a browser. `file` and `v` select a file of the page.",
      access: "public",
      query: UiQuery,
      responses: { 200: page("text/html, text/css, text/javascript") },
      async handle({ query }) {
        if (query.file === undefined) {
          const files = await Promise.all(fileNames.map(async (name) => [name, (await read(name)).version]));
          return new Page(toUiPage(Object.fromEntries(files)), uiHeaders);
        }
        const { text, type, version: current } = await read(query.file);
        const headers = toPageHeaders(type, {});
        if (query.v === current) headers["cache-control"] = "public, max-age=31536000, immutable";
        return new Page(text, headers);
      },
    }),
  ];

  function toLanding({ request, snapshot, identity }: LandingRequest, more: Readonly<Record<string, string>>): Page {
    const { origin, path } = toPublicUrl(request, snapshot);
    const url = origin + path;
    // If `cors` allows it, a page of another origin may read this one, but never the author's source code.
    const shown = request.headers.has("origin") ? undefined : problem();
    const lists = identity.caller ? kept.known : kept.unknown;
    const made = lists.get(snapshot);
    const html = made?.url === url ? made.html : toNewLists(snapshot, identity, url);
    lists.set(snapshot, { url, html });
    const headers = { ...landingHeaders, ...(shown && { "cache-control": "no-store" }), ...more };
    const link = toLink(request, snapshot);
    return new Page(toLandingPage({ lists: html, version, problem: shown, link }), headers);
  }

  function toNewLists(snapshot: Catalog, { caller }: Identity, url: string): Html {
    const needsToken = toNeedsToken(routes, snapshot);
    return toLists(toVisibleEntries(snapshot, needsToken, caller !== undefined), url, needsToken);
  }
}

interface HomeRequest {
  readonly request: Request;
  readonly snapshot: Catalog;
}
interface LandingRequest extends HomeRequest {
  readonly identity: Identity;
}

/** The lists for one URL of the server. Only the last one is kept: a client can send any Host. */
interface Lists {
  readonly url: string;
  readonly html: Html;
}
const landingHeaders = toPageHeaders("text/html", {
  "style-src": `'sha256-${createHash("sha256").update(style).digest("base64")}'`,
  "img-src": "data:",
});
const uiHeaders = toPageHeaders("text/html", {
  "script-src": "'self'",
  "style-src": "'self'",
  "img-src": "'self' data:",
  "connect-src": "'self'",
});

/** The route `GET /doc`. Its OpenAPI document has all routes, with itself. */
export function docRoute(others: readonly AnyRoute[], version: string): Route<Catalog> {
  const kept = { known: new WeakMap<Catalog, Document>(), unknown: new WeakMap<Catalog, Document>() };
  const toPublicUrl = createPublicUrls();
  const route: Route<Catalog> = defineRoute({
    method: "GET",
    path: "/doc",
    summary: "This OpenAPI document",
    description: "A caller with a token also sees the agents, workflows and routes that need one.",
    access: "public",
    responses: { 200: page("application/json") },
    handle({ request, snapshot, identity }) {
      const isKnown = identity.caller !== undefined;
      const documents = isKnown ? kept.known : kept.unknown;
      const document = documents.get(snapshot) ?? toDocument(snapshot, isKnown);
      documents.set(snapshot, document);
      const servers = JSON.stringify([{ url: toPublicUrl(request, snapshot).path || "/" }]);
      return toPage(`${document.head},"servers":${servers},${document.rest}`, "application/json");
    },
  });
  return route;

  function toDocument(snapshot: Catalog, isKnown: boolean): Document {
    const routes = [...others, route].filter(({ method, path }) => !snapshot.replaced.has(`${method} ${path}`));
    const { workflows = [], agents = [] } = toVisibleEntries(snapshot, toNeedsToken(routes, snapshot), isKnown);
    const { policy, config, authorizer } = snapshot;
    const { openapi, info, ...rest } = toOpenApi(routes, {
      version,
      policy,
      agents,
      workflows: workflows.map((entry) => ({ ...entry, resultSchema: snapshot.workflows.get(entry.id)?.resultSchema })),
      customRoutes: toVisibleRoutes(snapshot, isKnown),
      isLimited: config.server.rateLimit !== undefined,
      refusesOrigins: mayRefuseOrigin(config),
      isAuthorized: authorizer !== undefined,
    });
    return { head: JSON.stringify({ openapi, info }).slice(0, -1), rest: JSON.stringify(rest).slice(1) };
  }
}

/** The JSON text in front of `servers` and after it: `servers` depends on the request. */
interface Document {
  readonly head: string;
  readonly rest: string;
}

/** Returns a reader of the URL under which a client reaches the server. Each version of the config has its own. */
function createPublicUrls(): (request: Request, snapshot: Catalog) => PublicUrl {
  const readers = new WeakMap<Catalog, PublicUrlReader>();
  return (request, snapshot) => {
    const reader = readers.get(snapshot) ?? createPublicUrlReader(snapshot.config.server);
    readers.set(snapshot, reader);
    return reader(request);
  };
}

/** Returns the start of a relative link on the landing page. At `/api/ai`, a link to `ui` would lead to `/api/ui`. */
function toLink({ url }: Request, { config }: Catalog): string {
  const { basePath = "" } = config.server;
  return basePath === "" || new URL(url).pathname.endsWith("/")
    ? ""
    : `${basePath.slice(basePath.lastIndexOf("/") + 1)}/`;
}

/**
 * Returns true if a request that may change data can be refused for its origin. With `cors: false` that is up to the
 * host. Under a provider with its own `extractToken`, every origin that `cors` does not name is refused.
 */
function mayRefuseOrigin({ auth, server: { cors } }: Catalog["config"]): boolean {
  return cors !== false && (auth?.extractToken !== undefined || !allowsEveryOrigin(cors));
}
