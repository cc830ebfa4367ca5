import { isGet, routes } from "./oracle-routes.ts";

export interface Mode {
  readonly name: string;
  /**
   * `jwt`, by a secret, `keys`, by a public key, and `oidc`, by the keys of an issuer: the header, of a handshake also
   * protocol and query. `cookie`: a provider with an `extractToken` of its own.
   */
  readonly provider?: "jwt" | "keys" | "oidc" | "cookie";
  /** The issuer has been down since the server started. */
  readonly isDown?: boolean;
  readonly defaultPrivate?: boolean;
  readonly webSockets?: boolean;
  readonly cors?: false;
  /** Each entry, and the routes that it opens. */
  readonly publicRoutes?: Readonly<Record<string, readonly string[]>>;
  /** Each entry, and the routes that it closes, if `publicRoutes` does not open them. */
  readonly protect?: Readonly<Record<string, readonly string[]>>;
}

const text = [
  "POST /agents/helper/text",
  "POST /agents/helper/text | broken body",
  "POST /agents/helper/text | respond-async",
  "POST /agents/helper/text | respond-async without a conversation",
  "POST /agents/nobody/text",
];
const quick = [
  "POST /workflows/quick/execute",
  "POST /workflows/quick/execute | respond-async",
  "POST /workflows/quick/execute | wrong input",
  "POST /workflows/quick/stream",
];

export const modes: readonly Mode[] = [
  { name: "no provider" },
  { name: "no provider, cors: false", cors: false },
  { name: "opt-in", provider: "jwt" },
  {
    name: "opt-in, publicRoutes and protect",
    provider: "jwt",
    publicRoutes: {
      "POST /agents/:id/text": text,
      "POST /workflows/quick/*": [...quick, "POST /workflows/quick/executions/x/nope"],
      "GET /workflows/rare/executions": [
        "GET /workflows/rare/executions",
        "HEAD /workflows/rare/executions",
        "UPGRADE /workflows/rare/executions",
      ],
      "GET /matrix/closed/*": ["GET /matrix/closed/7", "HEAD /matrix/closed/7"],
      "GET /admin/open": ["GET /admin/open"],
      "GET /area/*": ["GET /area/secret"],
    },
    protect: {
      "GET /admin/*": ["GET /admin", "GET /admin/secret", "HEAD /admin/secret", "GET /admin/open"],
      "GET /area/secret": ["GET /area/secret"],
      "GET /workflows": ["GET /workflows", "HEAD /workflows"],
      "GET /doc": ["GET /doc", "HEAD /doc"],
      "GET /": ["GET /", "HEAD /"],
      "POST /workflows/:id/executions/:executionId/resume": [
        "POST /workflows/asks/executions/{suspended}/resume",
        "POST /workflows/asks/executions/{suspended}/resume | respond-async",
        "POST /workflows/asks/executions/unknown/resume",
      ],
      "PATCH /matrix/open/:id": ["PATCH /matrix/open/7"],
      "GET /agents/:id/text": ["GET /agents/helper/text"],
      "PUT /things/:id": ["PUT /things/7"],
      "DELETE /workflows/*": ["DELETE /workflows/quick"],
      "POST /files/a/b": ["POST /files/a/b"],
      "GET /files/*": ["GET /files", "GET /files/a/b", "HEAD /files/a/b"],
      "DELETE /any": ["DELETE /any"],
      "PATCH /any": ["patch /any"],
      "GET /pub*": ["GET /pubs", "GET /pub/deep/er"],
      "GET /live": ["GET /live", "UPGRADE /live"],
      "GET /inner/*": ["GET /inner", "GET /inner/list", "GET /inner/nope"],
      "POST /raw/*": ["POST /raw/x"],
      "GET /unknown/*": ["GET /unknown/x"],
    },
  },
  { name: "opt-in, cors: false", provider: "jwt", cors: false },
  { name: "opt-in, webSockets", provider: "jwt", webSockets: true },
  { name: "opt-out", provider: "jwt", defaultPrivate: true },
  {
    name: "opt-out, publicRoutes",
    provider: "jwt",
    defaultPrivate: true,
    publicRoutes: {
      "POST /agents/:id/text": text,
      "POST /workflows/quick/execute": quick.slice(0, 3),
      "GET /doc": ["GET /doc", "HEAD /doc"],
      "GET /ui": ["GET /ui", "HEAD /ui", "GET /ui?file=page.js"],
      "GET /agents/*": [
        "GET /agents",
        "HEAD /agents",
        "GET /agents/helper",
        "GET /agents/nobody",
        "GET /agents/helper/text",
        "HEAD /agents/helper/chat",
        "GET /agents/helper/chat/quiet/stream",
        "HEAD /agents/helper/chat/quiet/stream",
        "GET /agents/nobody/chat/quiet/stream",
        "GET /agents/helper/conversations/quiet/stop",
        "GET /agents/helper/conversations",
        "HEAD /agents/helper/conversations",
        "GET /agents/helper/conversations?limit=201",
        "GET /agents/nobody/conversations",
        "GET /agents/helper/conversations/quiet",
        "HEAD /agents/helper/conversations/quiet",
        "GET /agents/helper/conversations/quiet/turns/t/steps",
        "HEAD /agents/helper/conversations/quiet/turns/t/steps",
        "GET /agents/nobody/conversations/quiet/turns/t/steps",
        "GET /agents/helper/usage",
        "HEAD /agents/helper/usage",
        "GET /agents/helper/usage?by=week",
        "GET /agents/nobody/usage",
        "GET /agents/helper/nope",
        "UPGRADE /agents",
      ],
      "GET /hello": ["GET /hello", "HEAD /hello", "UPGRADE /hello"],
      "POST /files/a/b": ["POST /files/a/b"],
      "GET /files/*": ["GET /files", "GET /files/a/b", "HEAD /files/a/b"],
      "GET /things/:id": ["GET /things/7"],
      "POST /any": ["POST /any"],
      "GET /pub*": ["GET /pubs", "GET /pub/deep/er"],
      "GET /guarded": ["GET /guarded"],
      "GET /inner/*": ["GET /inner", "GET /inner/list", "GET /inner/nope"],
      "GET /raw/*": ["GET /raw", "GET /raw/x", "HEAD /raw/x"],
      "GET /unknown/*": ["GET /unknown/x"],
    },
  },
  {
    name: "opt-out, publicRoutes GET /*",
    provider: "jwt",
    defaultPrivate: true,
    publicRoutes: { "GET /*": routes.filter(isGet).map(({ name }) => name) },
  },
  { name: "opt-out, cors: false", provider: "jwt", defaultPrivate: true, cors: false },
  { name: "opt-out, webSockets", provider: "jwt", defaultPrivate: true, webSockets: true },
  {
    name: "cookie provider",
    provider: "cookie",
    publicRoutes: { "POST /agents/:id/text": text },
    protect: {
      "ALL /admin/*": [
        "GET /admin",
        "GET /admin/secret",
        "HEAD /admin/secret",
        "GET /admin/open",
        "POST /admin/secret",
      ],
    },
  },
  { name: "cookie provider, opt-out", provider: "cookie", defaultPrivate: true },
  { name: "public key, opt-in", provider: "keys" },
  { name: "public key, opt-out, webSockets", provider: "keys", defaultPrivate: true, webSockets: true },
  {
    name: "issuer, opt-in, publicRoutes",
    provider: "oidc",
    publicRoutes: {
      "POST /agents/:id/text": text,
      "GET /matrix/closed/*": ["GET /matrix/closed/7", "HEAD /matrix/closed/7"],
    },
  },
  { name: "issuer, opt-out, webSockets", provider: "oidc", defaultPrivate: true, webSockets: true },
  {
    name: "issuer that is down, opt-in, publicRoutes, webSockets",
    provider: "oidc",
    isDown: true,
    webSockets: true,
    publicRoutes: {
      "POST /agents/:id/text": text,
      "GET /matrix/closed/*": ["GET /matrix/closed/7", "HEAD /matrix/closed/7"],
    },
  },
  { name: "issuer that is down, opt-out", provider: "oidc", isDown: true, defaultPrivate: true },
];
