export type Verdict = "none" | "valid" | "expired" | "invalid" | "banned" | "unavailable";

/** `<name>` stands for a token of that name. */
export interface Token {
  readonly name: string;
  /** One line each. */
  readonly authorization: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly query: string;
  /** What the JWT provider makes of it in a request, */
  readonly jwt: Verdict;
  /** and the one of an issuer, where it differs, in a request and in a handshake; */
  readonly oidc?: Verdict | undefined;
  /** and the one with a public key, where it differs, in both; */
  readonly keys?: Verdict | undefined;
  /** and in a handshake, where a token may also stand in protocol or query; */
  readonly handshake: Verdict;
  /** and what the provider makes of it that reads the cookie `session` and nothing else. */
  readonly cookie: Verdict;
}

const bearer = (name: string, authorization: string[], jwt: Verdict, oidc?: Verdict): Token => ({
  name,
  authorization,
  headers: {},
  query: "",
  jwt,
  oidc,
  handshake: jwt,
  cookie: "none", // an extractor of one's own replaces the header
});
const elsewhere = (
  name: string,
  sent: Partial<Pick<Token, "authorization" | "headers" | "query">>,
  { handshake = "none", cookie = "none" }: { handshake?: Verdict; cookie?: Verdict } = {},
): Token => ({ name, authorization: [], headers: {}, query: "", jwt: "none", ...sent, handshake, cookie });
const session = (name: string, cookie: Verdict): Token =>
  elsewhere(`cookie: ${name}`, { headers: { cookie: `other=1; session=<session ${name}>` } }, { cookie });

export const tokens: readonly Token[] = [
  bearer("none", [], "none"),
  bearer("valid", ["Bearer <valid>"], "valid"),
  bearer("valid, audience in a list", ["Bearer <audience in a list>"], "valid"),
  bearer("expired", ["Bearer <expired>"], "expired"),
  bearer("expired a second ago", ["Bearer <expired a second ago>"], "expired"),
  bearer("not yet valid", ["Bearer <not yet valid>"], "invalid"),
  bearer("wrong secret", ["Bearer <wrong secret>"], "invalid"),
  bearer("expired, wrong secret", ["Bearer <expired, wrong secret>"], "invalid"),
  bearer("empty secret", ["Bearer <empty secret>"], "invalid"),
  bearer("HS512", ["Bearer <HS512>"], "invalid"),
  bearer("HS384", ["Bearer <HS384>"], "invalid"),
  bearer("alg none", ["Bearer <alg none>"], "invalid"),
  bearer("alg nOnE", ["Bearer <alg nOnE>"], "invalid"),
  bearer("wrong audience", ["Bearer <wrong audience>"], "invalid"),
  bearer("no audience", ["Bearer <no audience>"], "invalid"),
  bearer("wrong issuer", ["Bearer <wrong issuer>"], "invalid"),
  bearer("no issuer", ["Bearer <no issuer>"], "invalid"),
  bearer("another payload", ["Bearer <another payload>"], "invalid"),
  bearer("signature cut off", ["Bearer <signature cut off>"], "invalid"),
  bearer("garbage", ["Bearer <garbage>"], "invalid"),
  bearer("garbage with dots", ["Bearer <garbage with dots>"], "invalid"),
  // docs/auth.md, "Use an identity provider": an issuer's token must have an `exp`, and a signature by a key of the issuer.
  // "Verify with a public key": a token needs an `exp`.
  { ...bearer("no expiry", ["Bearer <no expiry>"], "valid", "invalid"), keys: "invalid" },
  bearer("another kid", ["Bearer <another kid>"], "valid", "invalid"),
  bearer("its own key in the header", ["Bearer <its own key in the header>"], "invalid"),
  // docs/auth.md, "Errors": no token, another scheme, or an empty token.
  bearer("empty, with a space", ["Bearer "], "none"),
  bearer("empty", ["Bearer"], "none"),
  bearer("empty header", [""], "none"),
  bearer("Basic", ["Basic <valid>"], "none"),
  bearer("Bearerx", ["Bearerx <valid>"], "none"),
  bearer("no scheme", ["<valid>"], "none"),
  // docs/auth.md, "Errors": more than one Authorization header.
  bearer("doubled", ["Bearer <valid>", "Bearer <valid>"], "invalid"),
  bearer("doubled: garbage first", ["Bearer <garbage>", "Bearer <valid>"], "invalid"),
  bearer("doubled: garbage last", ["Bearer <valid>", "Bearer <garbage>"], "invalid"),
  bearer("doubled: Basic first", ["Basic YTpi", "Bearer <valid>"], "invalid"),
  bearer("doubled: Basic last", ["Bearer <valid>", "Basic YTpi"], "invalid"),
  bearer("doubled: both Basic", ["Basic YTpi", "Basic YTpi"], "invalid"),
  bearer("doubled: one empty", ["", "Bearer <valid>"], "invalid"),
  // Where nobody looks.
  elsewhere("in other cookies", { headers: { cookie: "token=<valid>; access_token=<valid>; jwt=<valid>" } }),
  elsewhere("in other headers", {
    headers: { "proxy-authorization": "Bearer <valid>", "x-access-token": "<valid>", "x-auth-token": "<valid>" },
  }),
  elsewhere("in another query", { query: "access_token=<valid>&authorization=Bearer%20<valid>" }),
  elsewhere("magic words", {
    headers: {
      "x-agentserve-dev": "true",
      "x-voltagent-dev": "true",
      "x-mastra-dev-playground": "true",
      "x-middleware-subrequest": "middleware",
      "x-original-url": "/doc",
      "x-http-method-override": "GET",
      "x-forwarded-for": "127.0.0.1",
    },
    query: "auth=false&dev=true",
  }),
  // Where a handshake may bring it.
  elsewhere("in the query", { query: "token=<valid>" }, { handshake: "valid" }),
  elsewhere("in the query, expired", { query: "token=<expired>" }, { handshake: "expired" }),
  elsewhere("in the query, garbage", { query: "token=<garbage>" }, { handshake: "invalid" }),
  elsewhere("as a protocol", { headers: { "sec-websocket-protocol": "bearer, <valid>" } }, { handshake: "valid" }),
  elsewhere(
    "as a protocol, HS512",
    { headers: { "sec-websocket-protocol": "bearer, <HS512>" } },
    { handshake: "invalid" },
  ),
  // The cookie that the other provider reads.
  session("valid", "valid"),
  session("expired", "expired"), // by an error with `code: "ERR_JWT_EXPIRED"`
  session("unknown", "invalid"), // by another error
  session("nobody", "invalid"), // `verifyToken` returns nothing
  session("thrown text", "invalid"), // something else than an Error
  session("banned", "banned"), // a ServeError
  elsewhere("cookie: empty", { headers: { cookie: "session=" } }),
  {
    ...session("valid", "valid"),
    name: "cookie: valid, header garbage",
    authorization: ["Bearer <garbage>"],
    jwt: "invalid",
    handshake: "invalid",
  },
];

/**
 * docs/auth.md, "When the issuer is down": 503 for a token that is well-formed and has not expired. Nothing but their
 * signature decides about these.
 */
export const undecided: readonly string[] = [
  "valid",
  "valid, audience in a list",
  "wrong secret",
  "another payload",
  "another kid",
  "its own key in the header",
  "in the query",
  "as a protocol",
];
/** These have expired, whoever signed them. */
export const surelyExpired: readonly string[] = ["expired, wrong secret"];

/** The same two rules where they are hardest to tell apart; asked of one closed route. */
export const shapes: readonly Token[] = [
  bearer("Digest", ['Digest username="a", realm="b", nonce="1"'], "none"),
  bearer("Digest, with a comma in quotes", ['Digest username="a", realm="b, c d", nonce="1"'], "none"),
  bearer("doubled: both empty", ["", ""], "invalid"),
  bearer("doubled: empty last", ["Bearer <valid>", ""], "invalid"),
  bearer("doubled: empty after Basic", ["Basic YTpi", ""], "invalid"),
  bearer("doubled: no scheme last", ["Basic YTpi", "<garbage>"], "invalid"),
  bearer("doubled: no scheme at all", ["<valid>", "<valid>"], "invalid"),
  bearer("doubled: two bare schemes", ["Bearer", "Bearer"], "invalid"),
  bearer("tripled", ["Bearer <valid>", "Bearer <valid>", "Bearer <valid>"], "invalid"),
];
