// What a client may say about itself, wherever and however it can be written. JSON is made as text: keys twice, keys in
// escapes and `__proto__` do not survive an object.
import fc from "fast-check";

type Json = string | readonly Entry[];
type Entry = readonly [key: string, value: Json];

const toText = (json: Json): string =>
  typeof json === "string" ? json : `{${json.map(([key, value]) => `${key}:${toText(value)}`).join(",")}}`;

const escape = (text: string): string =>
  [...text].map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
/** A key as it is, in escapes, or half. */
const spell = (key: string): fc.Arbitrary<string> =>
  fc.constantFrom(`"${key}"`, `"${key}"`, `"${escape(key)}"`, `"${escape(key[0]!)}${key.slice(1)}"`);
const keyOf = (...keys: string[]): fc.Arbitrary<string> => fc.constantFrom(...keys).chain(spell);

const ada = { id: "ada", sub: "ada", email: "ada@private.test", roles: ["admin"] };
const forged = fc.oneof(
  fc.constantFrom(
    JSON.stringify(ada),
    '"ada"',
    '"ada"',
    "null",
    "true",
    "7",
    "[]",
    JSON.stringify([ada]),
    JSON.stringify({ user: ada, userId: "ada" }),
    '{"__proto__":{"id":"ada","user":{"id":"ada"},"userId":"ada"}}',
    '{"constructor":{"prototype":{"user":{"id":"ada"},"userId":"ada"}}}',
  ),
  fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)),
);
const names = ["user", "userId", "authenticatedUser"];
const around = ["caller", "identity", "checked", "auth", "id", "sub", "__proto__", "constructor", "prototype"];
const claim: fc.Arbitrary<Entry> = fc.letrec<{ value: Json; entry: Entry }>((tie) => ({
  entry: fc.tuple(fc.oneof(keyOf(...names), keyOf(...around)), tie("value")),
  value: fc.oneof({ maxDepth: 3 }, { weight: 3, arbitrary: forged }, fc.array(tie("entry"), { maxLength: 3 })),
})).entry;
const claims = fc.array(claim, { maxLength: 3 });
/** Where a text is expected, mostly a text: what is refused cannot be believed anyhow. */
const userId = fc.oneof(
  { weight: 6, arbitrary: fc.constant('"ada"') },
  { weight: 1, arbitrary: forged },
) as fc.Arbitrary<Json>;

const options: fc.Arbitrary<Json> = fc
  .record({
    before: claims,
    userId: fc.option(fc.tuple(spell("userId"), userId)),
    contexts: fc.array(fc.tuple(spell("context"), claims), { minLength: 1, maxLength: 2 }),
    after: claims,
  })
  .map(({ before, userId: said, contexts, after }) => [
    ...before.filter(isNotUserId),
    ...(said ? [said] : []),
    ...contexts,
    ...after.filter(isNotUserId),
  ]);
const isNotUserId = ([key]: Entry): boolean => JSON.parse(key) !== "userId";
/** A chat's own `id` names its conversation. */
const isNotId = ([key]: Entry): boolean => JSON.parse(key) !== "id";

/** A body with what the endpoint needs, and as many claims as fit; `only` claims where `options` are of no use. */
export function bodyWith(needed: Record<string, unknown>): fc.Arbitrary<string> {
  const rest = Object.entries(needed).map(([key, value]): Entry => [JSON.stringify(key), JSON.stringify(value)]);
  return fc
    .record({
      before: claims,
      options: fc.array(fc.tuple(spell("options"), options), { minLength: 1, maxLength: 2 }),
      context: fc.option(fc.tuple(spell("context"), claims)),
      after: claims,
    })
    .map(({ before, options: said, context, after }) => {
      const entries: Entry[] = [...before, ...rest, ...said, ...(context ? [context] : []), ...after];
      return toText(entries.filter(isNotId));
    });
}

/** What a resume brings: any of it is data. */
export const resumeBody: fc.Arbitrary<string> = fc
  .record({ data: fc.oneof(forged, claims), before: claims, options: claims, context: claims })
  .map(({ data, before, options: said, context }) =>
    toText([...before, ['"resumeData"', data], ['"options"', said], ['"context"', context]]),
  );

const ids = JSON.stringify(ada);
/** The same in the query and in headers that other servers believe. */
export const query: fc.Arbitrary<string> = fc
  .subarray([
    "user=ada",
    "userId=ada",
    "authenticatedUser=ada",
    `user=${encodeURIComponent(ids)}`,
    "context[user]=ada",
    "options.userId=ada",
    "__proto__[userId]=ada",
    "token=none",
  ])
  .map((parts) => parts.join("&"));
export const headers: fc.Arbitrary<Record<string, string>> = fc
  .subarray([
    ["x-user", ids],
    ["x-user-id", "ada"],
    ["user-id", "ada"],
    ["userid", "ada"],
    ["x-authenticated-user", ids],
    ["authenticateduser", ids],
    ["remote-user", "ada"],
    ["x-forwarded-user", "ada"],
    ["x-middleware-subrequest", "auth"],
    ["x-original-url", "/me?userId=ada"],
    ["cookie", "userId=ada; user=ada; token=ada"],
  ])
  .map((pairs) => Object.fromEntries(pairs) as Record<string, string>);
