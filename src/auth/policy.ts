import { addRoute, compareRoutes, createRouter, findRoute, type RouterContext } from "rou3";
import type { Access } from "../http/route.ts";
import type { AccessOptions } from "./provider.ts";

/** What the policy knows of a built-in row. */
export interface PolicyRow {
  readonly type: "route" | "socket";
  readonly access: Access;
}
export interface Asked {
  readonly method: string;
  /** The very path that the router used, or a route's pattern. */
  readonly path: string;
  /** The built-in row that matched. The row, not the URL: every spelling of a path that reaches it is one request. */
  readonly row: PolicyRow | undefined;
  readonly isUpgrade?: boolean | undefined;
}
/** Whether a caller is needed, and what says so. */
export interface Decision {
  readonly access: Access;
  readonly why: string;
}
export interface Policy {
  decide(asked: Asked): Decision;
  /** What holds for all paths of a route, and the entries that make an exception for some of them. */
  describe(asked: Asked): Decision & { readonly except: readonly string[] };
}

export function createPolicy(options: AccessOptions): Policy {
  const opened = toEntries(options.publicRoutes, "public", "publicRoutes");
  const closed = toEntries(options.protect, "protected", "protect");
  const opening = toRouter(opened);
  const closing = toRouter(closed);
  const byMode: Decision = options.defaultPrivate ? decisions.optOut : decisions.optIn;

  function byRow({ row, isUpgrade }: Asked): Decision {
    if (isUpgrade && options.webSockets) return decisions.webSockets;
    if (row?.type === "socket") return decisions.socket;
    return row?.access === "protected" ? decisions.row : byMode;
  }

  return {
    decide(asked) {
      return find(opening, asked) ?? find(closing, asked) ?? byRow(asked);
    },
    describe(asked) {
      const meeting = [...opened, ...closed].filter((entry) => meets(entry, asked));
      const whole = meeting.find((entry) => covers(entry, asked));
      const decision = whole?.decision ?? byRow(asked);
      // An entry behind the one that holds for all is never asked.
      const before = whole ? meeting.slice(0, meeting.indexOf(whole)) : meeting;
      const except = before.filter((entry) => entry.decision.access !== decision.access).map(({ text }) => text);
      return { ...decision, except };
    },
  };
}

const decisions = {
  optIn: { access: "public", why: "opt-in mode" },
  optOut: { access: "protected", why: "opt-out mode" },
  row: { access: "protected", why: "protected by default" },
  socket: { access: "public", why: "a WebSocket" },
  webSockets: { access: "protected", why: "webSockets" },
} satisfies Record<string, Decision>;

interface Entry {
  readonly text: string;
  readonly method: string;
  readonly path: string;
  readonly decision: Decision;
}

function toEntries(texts: readonly string[] = [], access: Access, what: string): Entry[] {
  return texts.map((text) => ({ text, ...readEntry(text)!, decision: { access, why: `${what}: ${text}` } }));
}

/** The parts of `GET /reports/*`; undefined when it is no such thing. A HEAD is a GET. */
export function readEntry(text: unknown): { method: string; path: string } | undefined {
  const [, method, path] = /^([A-Z]+) (\/\S*)$/.exec(typeof text === "string" ? text : "") ?? [];
  if (!method || !path || method === "HEAD") return undefined;
  try {
    addRoute(createRouter(), method, path, true); // rou3 reads the spec's trailing `*` as the spec does
  } catch {
    return undefined;
  }
  return { method, path };
}

/** The router that h3 and the table use, so that an entry covers just what a route of the same pattern would. */
function toRouter(entries: readonly Entry[]): RouterContext<Decision> | undefined {
  if (entries.length === 0) return undefined;
  const router = createRouter<Decision>();
  for (const { method, path, decision } of entries) addRoute(router, method, path, decision);
  return router;
}

function find(router: RouterContext<Decision> | undefined, { method, path }: Asked): Decision | undefined {
  return router && findRoute(router, toRouted(method), path, { params: false })?.data;
}

/** A HEAD runs what GET does. A method in small letters is none, but `app.all()` would take it. */
function toRouted(method: string): string {
  const upper = method.toUpperCase();
  return upper === "HEAD" ? "GET" : upper;
}

/** h3 has no method for a route of `app.all()`. */
const meets = (entry: Entry, { method, path }: Asked): boolean =>
  (method === "" || entry.method === toRouted(method)) && compareRoutes(entry.path, path) !== "disjoint";
const covers = (entry: Entry, { method, path }: Asked): boolean =>
  method !== "" && ["equal", "superset"].includes(compareRoutes(entry.path, path));
