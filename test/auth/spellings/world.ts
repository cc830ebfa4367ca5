import { createToken, defineAgent, defineWorkflow, jwtAuth, type Config } from "agentserve";
import { addRoutes, addShadows, ownCors, protect, publicRoutes } from "./app.ts";
import { note, watchedBackend, watchedModel } from "./sentinels.ts";
import { withBounds } from "../../harness/bounds.ts";

/** A server with all kinds of routes, closed in one way or another. */
export interface World {
  readonly title: string;
  readonly isOptOut?: boolean;
  /** `cors: false`, with a middleware of the host's. */
  readonly hasOwnCors?: boolean;
  readonly webSockets?: boolean;
  /** The path in front of every place. */
  readonly basePath?: string;
}

export function toConfig({ isOptOut = false, hasOwnCors = false, webSockets, basePath }: World): Config {
  // The check of a client's schema has a deadline, which a busy machine would miss.
  return withBounds(
    { schemaMs: 10_000 },
    {
      agents: [defineAgent({ id: "a", instructions: "Repeat.", model: watchedModel() })],
      workflows: [defineWorkflow({ id: "w" }).andThen({ id: "s", execute: async () => note("step") })],
      backend: watchedBackend(),
      server: { ...(hasOwnCors && { cors: false }), ...(basePath && { basePath }) },
      auth: jwtAuth({ secret, publicRoutes, webSockets, ...(isOptOut ? { defaultPrivate: true } : { protect }) }),
      configureApp(app) {
        if (hasOwnCors) app.use(ownCors);
        addRoutes(app);
        addShadows(app, isOptOut);
      },
    },
  );
}

export const secret = "a secret of the spellings, long enough";
const token = await createToken({ sub: "ada" }, secret, { expiresIn: "1h" });
export const valid: readonly string[] = [`Authorization: Bearer ${token}`];

const [head, payload, signature] = token.split(".");
const unsigned = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${payload}`;
const bad = [
  "",
  "null",
  `${token} x`,
  `${token}, Bearer x`,
  `${head}.${payload}.`,
  `${unsigned}.`,
  `${unsigned}.${signature}`,
  await createToken({ sub: "ada" }, secret, { algorithm: "HS512" }),
  await createToken({ sub: "ada" }, `${secret}!`),
  await createToken({ sub: "ada", exp: 1 }, secret),
];
/** Headers that bring no token, one that is no good, or a good one in a place where nobody looks. */
export const invalid: readonly (readonly string[])[] = [
  [],
  [],
  [],
  ...bad.map((text) => [`Authorization: Bearer ${text}`]),
  [`Authorization: Basic ${token}`],
  [`Authorization: ${token}`],
  [`Authorization: Bearer\t${token}`],
  [...valid, "Authorization: Bearer x"],
  ["Authorization: Bearer x", ...valid],
  [`Proxy-Authorization: Bearer ${token}`],
  [`X-Forwarded-Authorization: Bearer ${token}`],
  [`Cookie: token=${token}; authorization=Bearer ${token}`],
];
