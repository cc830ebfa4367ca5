import { createHash } from "node:crypto";
import { FastResponse } from "srvx";
import * as v from "valibot";
import { allowsEveryOrigin } from "../http/cors.ts";
import { toPage } from "../http/envelope.ts";
import { defineRoute, page, type Route } from "../http/route.ts";
import { toNeedsToken, toVisibleEntries, toVisibleRoutes, type Catalog, type AnyRoute } from "./catalog.ts";
import type { Html } from "./html.ts";
import { style } from "./landing-style.ts";
import { toLandingPage, toLists } from "./landing.ts";
import { toOpenApi } from "./document/openapi.ts";
import { toPageHeaders } from "./page-headers.ts";
import type { Problem } from "./problem.ts";
import { createUiFiles, fileNames } from "./ui-files.ts";
import { toUiPage } from "./ui.ts";

export interface PageParts {
  readonly version: string;
  /** The routes whose access the pages show. */
  readonly routes: readonly AnyRoute[];
  /** Returns the error of the last reload, if it failed. */
  readonly problem?: (() => Problem | undefined) | undefined;
}

const UiQuery = v.object({ file: v.optional(v.picklist(fileNames)), v: v.optional(v.string()) });

/** The routes of the HTML pages: `GET /` and `GET /ui`. */
export function pageRoutes({ version, routes, problem = () => undefined }: PageParts): readonly Route<Catalog>[] {
  const kept = { known: new WeakMap<Catalog, Lists>(), unknown: new WeakMap<Catalog, Lists>() };
  const read = createUiFiles();
  return [
    defineRoute({
      method: "GET",
      path: "/",
      summary: "Landing page: agents, workflows and how to call them",
      description: "HTML for a browser.",
      access: "public",
      responses: { 200: page("text/html") },
      handle({ request, snapshot, identity }) {
        const { origin } = new URL(request.url);
        // If `cors` allows it, a page of another origin may read this one, but never the author's source code.
        const shown = request.headers.has("origin") ? undefined : problem();
        const lists = identity.caller ? kept.known : kept.unknown;
        const made = lists.get(snapshot);
        if (made?.origin === origin) return toLanding(made.html, shown);
        const needsToken = toNeedsToken(routes, snapshot);
        const html = toLists(toVisibleEntries(snapshot, needsToken, identity.caller !== undefined), origin, needsToken);
        lists.set(snapshot, { origin, html });
        return toLanding(html, shown);
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
          return new FastResponse(toUiPage(Object.fromEntries(files)), { headers: uiHeaders });
        }
        const { bytes, type, version: current } = await read(query.file);
        const headers = toPageHeaders(type, {});
        if (query.v === current) headers["cache-control"] = "public, max-age=31536000, immutable";
        return new FastResponse(bytes, { headers });
      },
    }),
  ];

  function toLanding(lists: Html, shown: Problem | undefined): Response {
    const headers = shown ? { ...landingHeaders, "cache-control": "no-store" } : landingHeaders;
    return new FastResponse(toLandingPage(lists, version, shown), { headers });
  }
}

interface Lists {
  readonly origin: string;
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

/** The route `GET /doc`. It returns the OpenAPI document of the other routes and of itself. */
export function docRoute(others: readonly AnyRoute[], version: string): Route<Catalog> {
  const kept = { known: new WeakMap<Catalog, string>(), unknown: new WeakMap<Catalog, string>() };
  const route: Route<Catalog> = defineRoute({
    method: "GET",
    path: "/doc",
    summary: "This OpenAPI document",
    description: "A caller with a token also sees the agents, workflows and routes that need one.",
    access: "public",
    responses: { 200: page("application/json") },
    handle({ snapshot, identity }) {
      const isKnown = identity.caller !== undefined;
      const documents = isKnown ? kept.known : kept.unknown;
      const document = documents.get(snapshot) ?? toDocument(snapshot, isKnown);
      documents.set(snapshot, document);
      return toPage(document, "application/json");
    },
  });
  return route;

  function toDocument(snapshot: Catalog, isKnown: boolean): string {
    const routes = [...others, route].filter(({ method, path }) => !snapshot.replaced.has(`${method} ${path}`));
    const { workflows = [], agents = [] } = toVisibleEntries(snapshot, toNeedsToken(routes, snapshot), isKnown);
    const { policy, config } = snapshot;
    const document = toOpenApi(routes, {
      version,
      policy,
      agents,
      workflows: workflows.map((entry) => ({ ...entry, resultSchema: snapshot.workflows.get(entry.id)?.resultSchema })),
      customRoutes: toVisibleRoutes(snapshot, isKnown),
      isLimited: config.server.rateLimit !== undefined,
      refusesOrigins: mayRefuseOrigin(config),
    });
    return JSON.stringify(document);
  }
}

/**
 * Returns true if a request that may change data can be refused for its origin. With `cors: false` that is up to the
 * host. Under a provider with its own `extractToken`, every origin that `cors` does not name is refused.
 */
function mayRefuseOrigin({ auth, server: { cors } }: Catalog["config"]): boolean {
  return cors !== false && (auth?.extractToken !== undefined || !allowsEveryOrigin(cors));
}
