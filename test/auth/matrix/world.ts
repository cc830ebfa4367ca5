import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { defineWebSocketHandler, H3, type H3Event } from "h3";
import * as v from "valibot";
import {
  defineAgent,
  defineSchedule,
  defineWorkflow,
  jwtAuth,
  oidcAuth,
  ServeError,
  type AuthProvider,
  type Config,
} from "agentserve";
import { echoModel } from "agentserve/models";
import { defineRoute } from "../../../src/http/route.ts";
import type { BuiltInRoute } from "../../../src/server/built-in-routes.ts";
import { createGates } from "../../harness/gates.ts";
import type { Mode } from "./oracle-modes.ts";
import type { TestIssuer } from "../oidc/issuer.ts";
import { toPem } from "../oidc/sign.ts";
import { audience, issuer, keyPair, secret, sessions } from "./tokens.ts";

/** Whom a handler saw: a user's id, null for nobody, undefined where it cannot tell. */
export type Who = string | null | undefined;

/** A config of this mode, and what its handlers saw. Each case has a key: a header, an execution's id, or what an agent is told. */
export function createWorld(mode: Mode, tokenIssuer?: TestIssuer) {
  const seen = new Map<string, Who[]>();
  const passed = new Set<string>();
  const gates = createGates();
  const see = (key: string | null, who: Who): void => {
    seen.set(key ?? "?", [...(seen.get(key ?? "?") ?? []), who]);
  };
  const config: Config = {
    server: { ...toCors(mode), limits: { drainMs: 1_000 } },
    auth: toProvider(mode, tokenIssuer),
    console: true,
    agents: [defineAgent({ id: "helper", instructions: toInstructions, model: createSeeingModel(see) })],
    workflows: createWorkflows(see, gates.pass),
    schedules: [defineSchedule({ id: "nightly", cron: "0 3 1 1 *", workflow: "quick", input: { n: 1 } })],
    configureApp: (app) => addRoutes(app, see, (key) => void passed.add(key)),
  };
  return { config, rows: createRows(see), seen, passed, open: () => gates.open("all") };
}
/** A provider that reads a cookie serves pages of named origins only. */
function toCors(mode: Mode): Config["server"] {
  if (mode.cors === false) return { cors: false };
  return mode.provider === "cookie" ? { cors: { origin: hostsOrigin } } : {};
}
type See = (key: string | null, who: Who) => void;

function toProvider(mode: Mode, tokenIssuer: TestIssuer | undefined): AuthProvider | undefined {
  const access = {
    ...(mode.publicRoutes && { publicRoutes: Object.keys(mode.publicRoutes) }),
    ...(mode.protect && { protect: Object.keys(mode.protect) }),
    ...(mode.defaultPrivate && { defaultPrivate: true }),
    ...(mode.webSockets && { webSockets: true }),
  };
  const verifyOptions = { audience, issuer };
  if (mode.provider === "jwt") return jwtAuth({ secret, verifyOptions, ...access });
  if (mode.provider === "keys") return jwtAuth({ publicKey: toPem(keyPair.publicKey), verifyOptions, ...access });
  if (mode.provider === "oidc") return oidcAuth({ issuer: tokenIssuer!.url, audience, ...access });
  if (mode.provider === undefined) return undefined;
  return {
    type: "cookie",
    ...access,
    extractToken: ({ headers }) => /(?:^|; )session=([^;]*)/.exec(headers.get("cookie") ?? "")?.[1],
    async verifyToken(token) {
      if (token === sessions.get("session valid")) return { id: "ada" };
      if (token === sessions.get("session expired")) throw Object.assign(new Error("old"), { code: "ERR_JWT_EXPIRED" });
      if (token === sessions.get("session nobody")) return undefined as never; // as code without types may
      // oxlint-disable-next-line no-throw-literal
      if (token === sessions.get("session thrown text")) throw "a text";
      if (token === sessions.get("session banned")) throw new ServeError(403, "Banned");
      throw new Error("no such session");
    },
  };
}

const toInstructions = ({ userId }: { userId?: string | undefined }): string => `You serve ${userId ?? "nobody"}.`;

/** Echoes; tells the case by what it is asked, and the caller by its instructions. */
function createSeeingModel(see: See): LanguageModelV4 {
  const model = echoModel();
  const look = ({ prompt }: LanguageModelV4CallOptions): void => {
    const said = JSON.stringify(prompt);
    const [, user] = /You serve (\w+)/.exec(said) ?? [];
    see(/case-[\w-]+/.exec(said)?.[0] ?? null, user === "nobody" ? null : user);
  };
  return {
    ...model,
    async doGenerate(options) {
      look(options);
      return model.doGenerate(options);
    },
    async doStream(options) {
      look(options);
      return model.doStream(options);
    },
  };
}

function createWorkflows(see: See, pass: (key: string) => Promise<void>) {
  const input = v.object({ n: v.number() });
  const toWho = (context: ReadonlyMap<string, unknown>): Who => (context.get("userId") as string | undefined) ?? null;
  const quick = (id: string) =>
    defineWorkflow({ id, input }).andThen({
      id: "only",
      execute: ({ executionId, context }) => see(executionId, toWho(context)),
    });
  const asks = defineWorkflow({ id: "asks" }).andThen({
    id: "person",
    execute({ executionId, resumeData, resumedBy, suspend }) {
      if (resumeData === undefined) return suspend("Go on?");
      return see(executionId, resumedBy?.userId ?? null);
    },
  });
  const waits = defineWorkflow({ id: "waits" }).andThen({ id: "gate", execute: () => pass("all") });
  return [quick("quick"), quick("rare"), asks, waits];
}

/** Built-in rows whose handlers can be seen to run. */
function createRows(see: See): readonly BuiltInRoute[] {
  const toRow = (method: "GET" | "PATCH" | "DELETE", access: "public" | "protected", path: string): BuiltInRoute =>
    defineRoute({
      method,
      path,
      summary: "Seen to run",
      access,
      responses: { 200: v.null() },
      handle({ request, identity }) {
        see(request.headers.get("x-case"), identity.caller?.userId ?? null);
        return null;
      },
    });
  return [
    toRow("GET", "protected", "/matrix/closed/:id"),
    toRow("DELETE", "protected", "/matrix/closed/:id"),
    toRow("GET", "public", "/matrix/open/:id"),
    toRow("PATCH", "public", "/matrix/open/:id"),
  ];
}

/** What the host's own middleware allows. */
export const hostsOrigin = "http://page.test";

function addRoutes(app: H3, see: See, pass: (key: string) => void): void {
  const handler = (event: H3Event) => {
    const user = event.context["authenticatedUser"] as { id: string } | undefined;
    see(event.req.headers.get("x-case"), user?.id ?? null);
    return { ok: true };
  };
  app.use((event) => {
    pass(event.req.headers.get("x-case") ?? "?");
    event.res.headers.set("access-control-allow-origin", hostsOrigin);
    return event.url.pathname === "/shortcut" ? handler(event) : undefined;
  });
  app.get("/hello", handler).post("/things", handler);
  for (const method of ["GET", "PUT", "PATCH", "DELETE"] as const) app.on(method, "/things/:id", handler);
  app.delete("/workflows/:id", handler);
  app.get("/files/**", handler).all("/any", handler);
  app.get("/admin", handler).get("/admin/secret", handler).post("/admin/secret", handler).get("/admin/open", handler);
  app.get("/area/secret", handler).get("/pubs", handler).get("/pub/deep/er", handler);
  app.get("/guarded", handler, { middleware: [(event) => void handler(event)] });
  app.get("/live", defineWebSocketHandler({ upgrade: (request) => see(request.headers.get("x-case"), undefined) }));
  app.use("/scoped/**", handler);
  app.mount("/guests", new H3().use(handler));
  app.mount("/inner", new H3().get("/list", handler).post("/list", handler));
  app.mount("/raw", {
    fetch(request: Request) {
      see(request.headers.get("x-case"), undefined);
      return new Response("raw");
    },
  });
}
