import { Random } from "../../faults/kills/plan.ts";
import { methods } from "./app.ts";
import type { Place } from "./places.ts";

/** A request, before anybody has signed it. */
export interface Spelling {
  readonly method: string;
  /** What stands between the method and the version. */
  readonly target: string;
  readonly version: "1.0" | "1.1";
  /** Undefined: none. */
  readonly host: string | undefined;
  readonly headers: readonly string[];
  readonly body: string;
}

/** As its author would ask for it. */
export function plain({ method, path, body }: Place): Spelling {
  const text = body === undefined ? "" : JSON.stringify(body);
  return { method, target: path, version: "1.1", host: "localhost", headers: [], body: text };
}

/** A place under another spelling: the same to the router, or only nearly so. */
export function spell(random: Random, place: Place): Spelling {
  const change = random.chance(0.7) ? undefined : random.pick(toPreflight, toOverride, toOverride, toHead, toSmall);
  let path = place.path;
  const count = change ? random.pick(0, 0, 1) : random.pick(0, 1, 1, 1, 1, 2, 2, 3);
  for (let left = count; left > 0; left--) path = random.pick(...tricks)(path, random);
  if (!change && random.chance(0.3)) path += random.pick(...endings);
  const spelling: Spelling = {
    ...plain(place),
    target: random.chance(0.9) ? path : toForm(random, path),
    version: random.chance(0.95) ? "1.1" : "1.0",
    host: random.chance(0.85) ? "localhost" : random.pick(undefined, ...hosts),
    headers: random.chance(0.7) ? [] : random.pick(...headers),
  };
  if (change) return change(random, spelling);
  return random.chance(0.85) ? spelling : { ...spelling, method: random.pick(...oddMethods, ...methods) };
}

const toHead = (_: Random, spelling: Spelling): Spelling => ({ ...spelling, method: "HEAD" });

/** In process, `patch` stays small, and `app.all()` takes it. */
const toSmall = (random: Random, spelling: Spelling): Spelling => ({
  ...spelling,
  method: random.pick(spelling.method.toLowerCase(), "patch"),
});

/** What a browser asks before the request itself: it brings no token, and must run nothing. */
function toPreflight(random: Random, spelling: Spelling): Spelling {
  const origin = random.pick("http://a.test", "http://b.test", "null");
  const asked = random.pick(spelling.method, spelling.method, "GET", "OPTIONS", "x");
  return { ...spelling, method: "OPTIONS", headers: [`Origin: ${origin}`, `Access-Control-Request-Method: ${asked}`] };
}

/** One method in the request line, another one elsewhere. */
function toOverride(random: Random, spelling: Spelling): Spelling {
  const isMeant = random.chance(0.7);
  const method = isMeant ? random.pick("GET", "POST", "PUT", "PATCH", "OPTIONS", "HEAD") : spelling.method;
  const other = isMeant ? spelling.method : random.pick("GET", "OPTIONS", "POST");
  if (random.chance(0.3)) return { ...spelling, method, target: `${spelling.target}?_method=${other}` };
  const names = ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"];
  return { ...spelling, method, headers: names.map((name) => `${name}: ${other}`) };
}

type Trick = (path: string, random: Random) => string;

const atEnd =
  (...choices: string[]): Trick =>
  (path, random) =>
    path + random.pick(...choices);
const atStart =
  (...choices: string[]): Trick =>
  (path, random) =>
    random.pick(...choices) + path;
/** In the place of a slash. */
const atSlash =
  (...choices: string[]): Trick =>
  (path, random) =>
    replaceOne(path, /\//g, () => random.pick(...choices), random);
/** In the place of some letters that are no part of an escape. */
const atLetters =
  (change: (letter: string, random: Random) => string): Trick =>
  (path, random) => {
    for (let left = random.pick(1, 1, 1, 3, 9); left > 0; left--) {
      path = replaceOne(path, /(?<!%.?)[\w.~-]/g, (letter) => change(letter, random), random);
    }
    return path;
  };
function replaceOne(path: string, pattern: RegExp, change: (found: string) => string, random: Random): string {
  const found = [...path.matchAll(pattern)].map(({ index }) => index);
  if (found.length === 0) return path;
  const at = random.pick(...found);
  return path.slice(0, at) + change(path[at]!) + path.slice(at + 1);
}

function escape(letter: string, random: Random): string {
  const code = letter.charCodeAt(0).toString(16);
  return `%${random.chance(0.5) ? code : code.toUpperCase()}`;
}
/** Letters that look the same, or that become the same in another case. */
const looks: Record<string, string> = { a: "а", c: "с", e: "е", i: "ı", k: "K", o: "ο", s: "ſ", t: "ｔ", x: "х" };
const toOtherCase = (letter: string): string =>
  letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase();

/** Of the base path of some servers: twice, cut short, longer, or in another case. */
const atBase: Trick = (path, random) =>
  path.replace(
    /^\/api\/ai(?=\/|$)/,
    random.pick(
      "/api/ai/api/ai",
      "/api",
      "/ai",
      "",
      "/api/ai//",
      "/api/ai/.",
      "/api/ai%2f",
      "/api%2fai",
      "/API/AI",
      "/api/aix/..",
    ),
  );

const tricks: readonly Trick[] = [
  atBase,
  atEnd("/"),
  atEnd("//", "/.", "/./", "/%2e", "/x/..", "/x/%2E%2e/", "/..", "/*", ".json", ".", ";", ";a=b"),
  atEnd("%00", "%09", "%20", "%0d%0a", "%", "%zz", "%ff", "%c0%af", "%2f", "%2F%2f", "%5c", "\t", "\u00a0"),
  atStart("/.", "/..", "/%2e%2E", "//localhost", "/\\localhost", "/", "\\", "/.//"),
  atStart("/open/..", "/open/%2e%2e", "/doc/..", "/agents/a/../..", "/group/open/../..", "/open/./%2E."),
  atStart("/files/public/..%2f..", "/files/public/%252e%252e%2f..", "/files/public/..%5c.."),
  atStart("/open%2f..", "/open/..%2f", "/open\\..", "/open;/..", "/open/..;", "/open%00"),
  atSlash("/./", "/x/../", "/%2e/", "/x/%2e%2E/", "/.%2E/", "\\", "/open/../"),
  atSlash("//", "///", "/../", "/..;/", "/;a/", "/%2e%2e%2f", "/%00/", "\\\\", "/\t", "/ ", "／", "//."),
  atSlash("%2f", "%2F", "%5c", "%5C", "%252f", "%255C", "%c0%af"),
  atLetters(escape),
  atLetters(escape),
  atLetters((letter, random) => escape(letter, random).replace("%", "%25")),
  atLetters(toOtherCase),
  atLetters((letter) => looks[letter] ?? `${letter}\u0301`),
  atLetters((letter) => encodeURIComponent(looks[letter] ?? letter)),
  (path, random) => path.replace("/", random.pick("/./", "/x/../", "/%2e/").repeat(random.pick(2, 50, 300))),
  (path, random) => path.replace(/x|\b[aw]\b/, random.pick("yyy", "%79").repeat(random.pick(2, 100, 900, 6_000))),
];

const endings =
  "? ?x=1 ?? ?/open/../.. ?# # #/open %3f %23 %3Fx=1 ?%00=%ff ?_method=GET ?_method=POST&method=OPTIONS ?token=x&auth=off"
    .split(" ")
    .concat(`?${"x".repeat(3_000)}`);
const oddMethods = "HEAD HEAD HEAD HEAD OPTIONS GET POST get Post GETS x".split(" ").concat("G ET", "");
const hosts = "localhost:1 127.0.0.1 [::1]:2 other.test x:99999 256.1.1.1 LOCALHOST. localhost/open open@localhost"
  .split(" ")
  .concat("", "a b", "localhost\r\nHost: other.test", "localhost\r\nHost: localhost");

/** The other forms of a request target. */
function toForm(random: Random, path: string): string {
  const forms = ["http://other.test", "http://localhost", "HTTP://u:p@localhost:1", "https://[::1]", "ftp://x"];
  const prefix = random.pick(...forms, "x:", "x:y", "//", "http:/", "http://", "*", "?", "");
  return prefix + (random.chance(0.9) ? path : path.slice(1));
}

const headers: readonly (readonly string[])[] = [
  ["Origin: http://a.test"],
  ["X-Original-URL: /open/x", "X-Rewrite-URL: /open/x"],
  ["X-Original-URL: /secret", "X-Rewrite-URL: /secret"],
  [
    "X-Forwarded-Host: other.test",
    "X-Forwarded-Proto: https",
    "X-Forwarded-For: 127.0.0.1",
    "X-Forwarded-Prefix: /open",
  ],
  ["X-Forwarded-Uri: /open/x", "X-Forwarded-Path: /open/x", "Forwarded: for=127.0.0.1;host=localhost"],
  ["X-Real-IP: 127.0.0.1", "X-Middleware-Subrequest: middleware", "X-User-Id: ada"],
  ["Upgrade: websocket", "Connection: Upgrade"],
  ["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings"],
  ["Expect: 100-continue"],
  ["Expect: x"],
  ["Prefer: respond-async"],
  ["Accept: text/html", "If-None-Match: *", "Range: bytes=0-1"],
];
