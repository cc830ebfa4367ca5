import * as v from "valibot";
import { explain, nearest } from "../core/explain.ts";
import { readEntry } from "./policy.ts";

// The message of each schema is what was expected.
const flag = v.optional(v.boolean("true or false"));
const routes = v.optional(
  v.array(
    v.custom<string>((text) => readEntry(text) !== undefined, 'a method and a path such as "GET /reports/*"'),
    'an array such as ["GET /reports/*"]',
  ),
);
const fn = v.custom<(...args: never[]) => unknown>((value) => typeof value === "function", "a function");
const name = v.optional(v.pipe(v.string("a text"), v.nonEmpty("a text")));
const algorithm = v.picklist(["HS256", "HS384", "HS512"], "HS256, HS384 or HS512");

const access = { defaultPrivate: flag, publicRoutes: routes, protect: routes, webSockets: flag, ownership: flag };

const Provider = v.object(
  { type: v.string("a text"), verifyToken: fn, extractToken: v.optional(fn), ...access },
  "an authentication provider such as jwtAuth()",
);

const JwtOptions = v.strictObject(
  {
    secret: v.optional(v.unknown()), // its own rule does not print what was found
    mapUser: v.optional(fn),
    verifyOptions: v.optional(
      v.strictObject(
        {
          algorithms: v.optional(
            v.pipe(v.array(algorithm, "an array of algorithms"), v.minLength(1, "one algorithm or more")),
          ),
          audience: name,
          issuer: name,
        },
        "an object",
      ),
    ),
    cacheSize: v.optional(v.pipe(v.number("a whole number"), v.integer("a whole number"), v.minValue(0, "0 or more"))),
    ...access,
  },
  "an object",
);

/** What is wrong with a provider: `publicRoutes.0: expected …`. A misspelt option would leave open what it should close. */
export function findProviderMistakes(provider: object): string[] {
  const known = Object.keys(Provider.entries);
  // Asked by name: a provider may be an instance of a class, and have more than we know.
  const parsed = v.safeParse(Provider, Object.fromEntries(known.map((key) => [key, Reflect.get(provider, key)])));
  const mistakes = parsed.success ? [] : parsed.issues.map((issue) => explain(Provider, issue));
  for (const key of Object.keys(provider)) {
    const near = known.includes(key) ? [] : nearest(key, known);
    if (near.length > 0) mistakes.push(`${key}: unknown key; did you mean ${near.join(" or ")}?`);
  }
  return mistakes;
}

export function checkJwtOptions(options: unknown): void {
  const parsed = v.safeParse(JwtOptions, options);
  if (parsed.success) return;
  throw new TypeError(parsed.issues.map((issue) => `jwtAuth(): ${explain(JwtOptions, issue)}`).join("\n"));
}
