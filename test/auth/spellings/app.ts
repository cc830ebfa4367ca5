import { METHODS } from "node:http";
import { posix } from "node:path";
import { defineWebSocketHandler, H3, handleCors, type EventHandler } from "h3";
import { note } from "./sentinels.ts";

/** All methods that a socket can carry. A HEAD is a GET. */
export const methods: readonly string[] = METHODS.filter((method) => method !== "HEAD");
const eachOf = (path: string): string[] => methods.map((method) => `${method} ${path}`);

/** Closes all of `addRoutes` in opt-in mode, but for the lobby. */
export const protect: readonly string[] = [
  "GET /secret",
  "GET /secret/:id",
  "POST /secret/:id/keys",
  "GET /report-:year",
  "GET /café",
  "GET /probe",
  "GET /vault/*",
  "GET /ledger*",
  "GET /guarded",
  "GET /live/*",
  "GET /files/*",
  "ALL /inner/*",
  "ALL /static/*",
  ...["/any", "/group/*", "/fetch/*"].flatMap(eachOf),
];
export const publicRoutes: readonly string[] = [
  "GET /open/*",
  "GET /group/open",
  "GET /fetch/open",
  "GET /inner/open",
  "GET /files/public/*",
];

const closed =
  (name: string): EventHandler =>
  () =>
    note(name);
const open: EventHandler = (event) => (event.res.headers.set("x-open", "1"), "open");
const isOpen = ({ pathname }: URL): boolean => pathname === "/open" || pathname === "/open/";

export function addRoutes(app: H3): void {
  app.get("/secret", closed("static"));
  app.get("/secret/:id", closed("parameter"));
  app.post("/secret/:id/keys", closed("parameter inside"));
  app.get("/report-:year", closed("part of a segment"));
  app.get("/café", closed("beyond ASCII"));
  app.get("/probe", closed("GET beside HEAD"));
  app.on("HEAD", "/probe", closed("HEAD"));
  app.get("/vault/**", closed("wildcard"));
  app.get("/ledger/**", closed("wildcard behind a part"));
  app.get("/ledger-:year/:month", closed("parameters behind a part"));
  app.all("/any", closed("all"));
  app.get("/guarded", closed("behind its own middleware"), { middleware: [() => void note("route middleware")] });
  app.get(
    "/live/:room",
    defineWebSocketHandler({ upgrade: () => void note("upgrade"), open: () => void note("open") }),
  );
  app.get("/lobby", defineWebSocketHandler({}));
  app.use("/static/**", closed("middleware that answers"));
  app.get("/files/**", (event) => (isPublicFile(event.url.pathname) ? open(event) : note("careless wildcard")));
  app.get("/open/**", open);

  const group = new H3();
  group.use(({ url }) => void (isOpen(url) || note("middleware of a group")));
  group.get("/list", closed("group")).post("/items/:id", closed("parameter of a group")).get("/open", open);
  app.mount("/group", group);

  app.mount("/fetch", ({ url }: Request) => {
    if (isOpen(new URL(url))) return new Response("open", { headers: { "x-open": "1" } });
    return new Response(note("fetch"));
  });
  const inner = new H3().get("/open", open).get("/list", closed("inner")).all("/**", closed("inner wildcard"));
  app.mount("/inner", { fetch: inner.fetch });
}

/** As one sees it who decodes whatever can be decoded. */
function isPublicFile(path: string): boolean {
  let decoded = path;
  for (let left = 3; left > 0; left--) decoded = decoded.replace(/%([0-7][0-9a-f])/gi, (_, code) => toLetter(code));
  return /^\/(files\/public|open)(\/|$)/.test(posix.normalize(decoded.replaceAll("\\", "/")));
}
const toLetter = (code: string): string => String.fromCharCode(parseInt(code, 16));

/** Custom routes that answered in the place of a built-in one. */
export const shadows: string[] = [];

/** Routes that would take the place of built-in ones if they were asked first. */
export function addShadows(app: H3, isOptOut: boolean): void {
  const add = (path: string, built: readonly string[]): void =>
    void app.all(path, ({ req }) => {
      if (built.includes(req.method)) shadows.push(`${req.method} ${path}`);
      return isOptOut ? note(`beside ${path}`) : "beside";
    });
  add("/agents/:id/text", ["POST"]);
  add("/workflows/:id/execute", ["POST"]);
  add("/workflows/:id/executions", ["GET", "HEAD"]);
  add("/test/closed/:id", ["GET", "HEAD"]);
}

/** For all paths, so with `cors: false` it sees what is refused, too. Answers the preflights of one origin. */
export const ownCors: EventHandler = (event) => {
  if (event.req.headers.get("origin") !== "http://a.test") return;
  const done = handleCors(event, { origin: ["http://a.test"], methods: "*", preflight: { statusCode: 204 } });
  return done === false ? undefined : done;
};
