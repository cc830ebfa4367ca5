import * as v from "valibot";
import { explain, nearest } from "../core/schemas/explain.ts";
import { isObject } from "../core/json.ts";
import { readEntry } from "./entry.ts";
import { publicKeyAlgorithms } from "./public-key.ts";

// The message of each schema names the expected value.
const flag = v.optional(v.boolean("true or false"));
const routes = v.optional(
  v.array(
    v.custom<string>((text) => readEntry(text) !== undefined, 'a method and a path such as "GET /reports/*"'),
    'an array such as ["GET /reports/*"]',
  ),
);
const fn = v.custom<(...args: never[]) => unknown>((value) => typeof value === "function", "a function");
const word = v.pipe(v.string("a string"), v.nonEmpty("a non-empty string"));
export const algorithms = ["HS256", "HS384", "HS512"] as const;
const toAlgorithms = (names: readonly string[], where = "") =>
  v.optional(
    v.pipe(
      v.array(v.picklist(names, `one of ${names.join(", ")}${where}`), "an array of algorithms"),
      v.minLength(1, "at least one algorithm"),
    ),
  );

const access = { defaultPrivate: flag, publicRoutes: routes, protect: routes, webSockets: flag, ownership: flag };

const Provider = v.object(
  { type: v.string("a string"), verifyToken: fn, extractToken: v.optional(fn), ...access },
  "an authentication provider such as jwtAuth()",
);

const tokens = { mapUser: v.optional(fn) };

const toJwtOptions = (allowed: ReturnType<typeof toAlgorithms>) =>
  v.strictObject(
    {
      // Not checked here, because the values must not be printed.
      secret: v.optional(v.unknown()),
      publicKey: v.optional(v.unknown()),
      verifyOptions: v.optional(
        v.strictObject(
          { algorithms: allowed, audience: v.optional(word), issuer: v.optional(word), requireExpiry: flag },
          "an object",
        ),
      ),
      ...tokens,
      ...access,
    },
    "an object",
  );
const SecretOptions = toJwtOptions(toAlgorithms(algorithms));
const PublicKeyOptions = toJwtOptions(toAlgorithms(publicKeyAlgorithms, " beside a publicKey"));

const OidcOptions = v.strictObject(
  {
    issuer: word,
    audience: v.union(
      [word, v.pipe(v.array(word, "an array"), v.minLength(1, "at least one audience"))],
      "the audience of the tokens: a non-empty string, or an array of such strings",
    ),
    algorithms: toAlgorithms(publicKeyAlgorithms),
    ...tokens,
    ...access,
  },
  "an object",
);

/**
 * Returns the mistakes in a provider: `auth.publicRoutes.0: expected …`. A misspelled option is one of them, because it
 * would leave routes open. If the provider is not an object, its value is not shown: it may be a secret.
 */
export function findProviderMistakes(provider: unknown, place: string): string[] {
  if (!isObject(provider))
    return [`${place}: expected an authentication provider such as jwtAuth(), found ${kindOf(provider)}`];
  const known = Object.keys(Provider.entries);
  // Read key by key: a provider may be a class instance and have other properties.
  const parsed = v.safeParse(Provider, Object.fromEntries(known.map((key) => [key, Reflect.get(provider, key)])));
  const mistakes = parsed.issues?.map((issue) => explain(Provider, issue)) ?? [];
  for (const key of Object.keys(provider).filter((name) => !known.includes(name))) {
    const near = nearest(key, Object.keys(access), 1);
    if (near.length > 0) mistakes.push(`${key}: unknown key; did you mean ${near.join(" or ")}?`);
  }
  return mistakes.map((mistake) => `${place}.${mistake}`);
}

export function checkJwtOptions(options: unknown): void {
  if (typeof options !== "object" || options === null)
    throw new TypeError(`jwtAuth(): expected an object such as { secret }, found ${kindOf(options)}`);
  const { secret, publicKey } = options as { secret?: unknown; publicKey?: unknown };
  if (secret !== undefined && publicKey !== undefined)
    throw new TypeError("jwtAuth(): expected a secret or a publicKey, found both");
  if (secret === undefined && publicKey === undefined && "publicKey" in options)
    throw new TypeError("jwtAuth(): publicKey: expected a public key in PEM, found nothing");
  check(publicKey === undefined ? SecretOptions : PublicKeyOptions, options, "jwtAuth()");
}

export function checkOidcOptions(options: unknown): void {
  if (typeof options !== "object" || options === null)
    throw new TypeError(`oidcAuth(): expected an object such as { issuer, audience }, found ${kindOf(options)}`);
  // A missing option is reported like one that is undefined.
  check(OidcOptions, { issuer: undefined, audience: undefined, ...options }, "oidcAuth()");
}

function check(schema: v.GenericSchema, options: unknown, where: string): void {
  const parsed = v.safeParse(schema, options);
  if (parsed.success) return;
  throw new TypeError(`${where}: ${parsed.issues.map((issue) => explain(schema, issue)).join("; ")}`);
}

export function kindOf(value: unknown): string {
  if (value === undefined || value === null || value === "") return "nothing";
  return Array.isArray(value) ? "an array" : typeof value === "object" ? "an object" : `a ${typeof value}`;
}
