import * as v from "valibot";
import { explain, nearest } from "../core/explain.ts";
import { isObject } from "../core/json.ts";
import { readEntry } from "./entry.ts";

// The message of each schema names the expected value.
const flag = v.optional(v.boolean("true or false"));
const routes = v.optional(
  v.array(
    v.custom<string>((text) => readEntry(text) !== undefined, 'a method and a path such as "GET /reports/*"'),
    'an array such as ["GET /reports/*"]',
  ),
);
const fn = v.custom<(...args: never[]) => unknown>((value) => typeof value === "function", "a function");
const word = v.optional(v.pipe(v.string("a string"), v.nonEmpty("a non-empty string")));
export const algorithms = ["HS256", "HS384", "HS512"] as const;
const algorithm = v.picklist(algorithms, `one of ${algorithms.join(", ")}`);

const access = { defaultPrivate: flag, publicRoutes: routes, protect: routes, webSockets: flag, ownership: flag };

const Provider = v.object(
  { type: v.string("a string"), verifyToken: fn, extractToken: v.optional(fn), ...access },
  "an authentication provider such as jwtAuth()",
);

const JwtOptions = v.strictObject(
  {
    secret: v.optional(v.unknown()), // toKey() checks it and does not print the value
    mapUser: v.optional(fn),
    verifyOptions: v.optional(
      v.strictObject(
        {
          algorithms: v.optional(
            v.pipe(v.array(algorithm, "an array of algorithms"), v.minLength(1, "at least one algorithm")),
          ),
          audience: word,
          issuer: word,
        },
        "an object",
      ),
    ),
    cacheSize: v.optional(v.pipe(v.number("a whole number"), v.integer("a whole number"), v.minValue(0, "0 or more"))),
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
  const parsed = v.safeParse(JwtOptions, options);
  if (parsed.success) return;
  throw new TypeError(`jwtAuth(): ${parsed.issues.map((issue) => explain(JwtOptions, issue)).join("; ")}`);
}

export function kindOf(value: unknown): string {
  if (value === undefined || value === null || value === "") return "nothing";
  return Array.isArray(value) ? "an array" : typeof value === "object" ? "an object" : `a ${typeof value}`;
}
