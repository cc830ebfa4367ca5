import { addRoute, compareRoutes, createRouter, findRoute, type RouterContext } from "rou3";
import type { Access } from "../http/route.ts";
import { readEntry, type Entry } from "./entry.ts";
import type { AccessOptions } from "./provider.ts";
import { readingsOf } from "./readings.ts";

/** The part of a built-in route that the policy reads. */
interface PolicyRoute {
  readonly type: "route" | "socket";
  readonly access: Access;
}
export interface AccessRequest {
  readonly method: string;
  /** The exact path that the router used, or the pattern of a route. */
  readonly path: string;
  /** The built-in route that matched. The route decides, not the URL: many spellings of a path reach the same route. */
  readonly route: PolicyRoute | undefined;
  readonly isUpgrade?: boolean | undefined;
}
/** The required access, and the rule that requires it. */
interface Decision {
  readonly access: Access;
  readonly why: string;
}
export interface Policy {
  decide(asked: AccessRequest): Decision;
  /** Returns the decision for all paths of a route, and the entries that make an exception for some of them. */
  describe(asked: AccessRequest): Decision & { readonly except: readonly string[] };
}

export function createPolicy(options: AccessOptions): Policy {
  const openers = toRules(options.publicRoutes, "public", "publicRoutes");
  const closers = toRules(options.protect, "protected", "protect");
  const opening = toRouter(openers);
  const closing = toRouter(closers);
  const byMode: Decision = options.defaultPrivate ? decisions.optOut : decisions.optIn;

  function byRoute({ route, isUpgrade }: AccessRequest): Decision {
    if (isUpgrade && options.webSockets) return decisions.webSockets;
    if (route?.type === "socket") return decisions.socket;
    return route?.access === "protected" ? decisions.route : byMode;
  }

  return {
    decide(asked) {
      const { method, path } = asked;
      if (!opening && !closing) return byRoute(asked);
      // A wildcard route may read the path in another way than the router. A path is public only if every reading is.
      const readings = readingsOf(path);
      const open = readings.map((reading) => find(opening, method, reading));
      const closed = readings.map((reading) => find(closing, method, reading));
      return (open.every(Boolean) && open[0]) || closed.find(Boolean) || byRoute(asked);
    },
    describe(asked) {
      const meeting = [...openers, ...closers].filter((rule) => meets(rule, asked));
      const whole = meeting.find((rule) => covers(rule, asked));
      const decision = whole?.decision ?? byRoute(asked);
      // An entry after the one that covers all paths never applies.
      const before = whole ? meeting.slice(0, meeting.indexOf(whole)) : meeting;
      const except = before.filter((rule) => rule.decision.access !== decision.access).map(({ text }) => text);
      return { ...decision, except };
    },
  };
}

const decisions = {
  optIn: { access: "public", why: "opt-in mode" },
  optOut: { access: "protected", why: "opt-out mode" },
  route: { access: "protected", why: "protected by default" },
  socket: { access: "public", why: "a WebSocket" },
  webSockets: { access: "protected", why: "webSockets" },
} satisfies Record<string, Decision>;

interface Rule extends Entry {
  readonly text: string;
  readonly decision: Decision;
}

function toRules(texts: readonly string[] = [], access: Access, what: string): Rule[] {
  return texts.map((text) => ({ text, ...readEntry(text)!, decision: { access, why: `${what}: ${text}` } }));
}

/** Uses h3's router, as the table does: an entry covers the same requests as a route with its pattern. */
function toRouter(rules: readonly Rule[]): RouterContext<Decision> | undefined {
  if (rules.length === 0) return undefined;
  const router = createRouter<Decision>();
  for (const { method, path, decision } of rules) addRoute(router, method, path, decision);
  return router;
}

function find(router: RouterContext<Decision> | undefined, method: string, path: string): Decision | undefined {
  return router && findRoute(router, toRouted(method), path, { params: false })?.data;
}

/** Returns the method to look up: GET for a HEAD, and uppercase, because `app.all()` would match a lowercase method. */
function toRouted(method: string): string {
  const upper = method.toUpperCase();
  return upper === "HEAD" ? "GET" : upper;
}

// An empty method is a route of `app.all()`, or an entry for `ALL`.
const meets = (rule: Rule, { method, path }: AccessRequest): boolean =>
  (method === "" || rule.method === "" || rule.method === toRouted(method)) &&
  compareRoutes(rule.path, path) !== "disjoint";
const covers = (rule: Rule, { method, path }: AccessRequest): boolean =>
  (method !== "" || rule.method === "") && ["equal", "superset"].includes(compareRoutes(rule.path, path));
