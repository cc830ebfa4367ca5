import { gzipSync } from "node:zlib";
import fc, { type Arbitrary } from "fast-check";
import type { Draft } from "./drafts.ts";
import { damaged, oddText } from "./values.ts";

/** The largest body that the server under test accepts. */
export const bodyBytes = 65_536;

type Change = (draft: Draft) => Draft;
type Break = readonly [name: string, change: Arbitrary<Change>];

const fixed = (...changes: Change[]): Arbitrary<Change> => fc.constantFrom(...changes);
const withText =
  (text: string | Buffer): Change =>
  (draft) => ({ ...draft, body: Buffer.from(text as string) });
const editText =
  (edit: (text: string) => string | Buffer): Change =>
  (draft) => ({ ...draft, body: Buffer.from(edit(draft.body.toString()) as string) });
const withHeader =
  (line: string): Change =>
  (draft) => {
    const name = line.split(":")[0]!.toLowerCase();
    const others = draft.headers.filter((other) => other.split(":")[0]!.toLowerCase() !== name);
    return { ...draft, headers: [...others, line] };
  };
const addHeaders =
  (...lines: string[]): Change =>
  (draft) => ({ ...draft, headers: [...draft.headers, ...lines] });
const unparsed =
  (change: Change): Change =>
  (draft) => ({ ...change(draft), isUnparsed: true });
const elsewhere =
  (change: Change): Change =>
  (draft) => ({ ...change(draft), isElsewhere: true });
const atPath = (edit: (path: string) => string): Change => elsewhere((draft) => ({ ...draft, path: edit(draft.path) }));
const framed = (headers: string[], toBody: (body: Buffer) => Buffer, isCut = false): Change =>
  unparsed((draft) => ({ ...draft, framing: { headers, bytes: toBody(draft.body) }, isCut }));

const breaks: readonly Break[] = [
  [
    "value",
    fc.nat().map((seed): Change => (draft) => {
      if (draft.body.length === 0) return draft;
      // Sampled by the draft, whose value is known only here. The seed keeps it reproducible.
      const [value] = fc.sample(damaged(JSON.parse(draft.body.toString())), { numRuns: 1, seed });
      return { ...draft, body: Buffer.from(JSON.stringify(value) ?? "") };
    }),
  ],
  [
    "deep",
    fc
      .constantFrom(50, 99, 101, 1_000, 30_000)
      .chain((depth) =>
        fixed(
          withText(`{"input":${"[".repeat(depth)}${"]".repeat(depth)}}`),
          withText(`{"input":${'{"a":'.repeat(Math.min(depth, 10_000))}1${"}".repeat(Math.min(depth, 10_000))}}`),
          withText(
            `{"input":"x","schema":${'{"not":'.repeat(Math.min(depth, 8_000))}{}${"}".repeat(Math.min(depth, 8_000))}}`,
          ),
          withText("[".repeat(depth)),
        ),
      ),
  ],
  [
    "long",
    fixed(
      withText(JSON.stringify({ input: "x".repeat(60_000) })),
      withText(JSON.stringify({ input: { message: "é".repeat(20_000), n: 1, orderId: "x".repeat(30_000) } })),
      withText(JSON.stringify({ input: {}, options: { userId: "x".repeat(50_000), executionId: "x".repeat(129) } })),
      withText(JSON.stringify({ reason: "\u0000".repeat(9_000) })),
    ),
  ],
  [
    "oversized",
    fixed(
      ...[bodyBytes + 1, 2 * bodyBytes, 1_000_000].flatMap((size): Change[] => [
        withText(JSON.stringify({ input: "x".repeat(size) })),
        (draft) => ({ ...withText(JSON.stringify({ input: "x".repeat(size) }))(draft), framing: "chunked" }),
      ]),
    ),
  ],
  [
    "not JSON",
    fc.oneof(
      fixed(
        ...["", " ", "null", "[]", "1", '"x"', "{", "{}}", "{'input':1}", "undefined", "NaN", '{"input":NaN}'].map(
          withText,
        ),
        withText(Buffer.from([0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00])),
        withText(Buffer.from('{"input":"\xff\xfe"}', "latin1")),
        withText('{"input":"a","input":{"n":1},"input":3}'),
        withText('{"__proto__":{"input":"x"},"input":"y"}'),
        editText((text) => `\ufeff${text}`),
        editText((text) => `${text}x`),
        editText((text) => text.replaceAll('"', "'")),
        editText((text) => Buffer.from(text, "utf16le")),
        editText((text) => text.replaceAll(":", ":\0")),
      ),
      fc
        .double({ min: 0, max: 0.99, noNaN: true })
        .map((share) => editText((text) => text.slice(0, text.length * share))),
      oddText.map(withText),
    ),
  ],
  [
    "content type",
    fixed(
      ...[
        "text/plain",
        "application/json; charset=utf-16",
        "application/json;",
        "APPLICATION/JSON",
        "application/jsonx",
        "application/problem+json",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        ";",
        "",
        "*/*",
        "text/json, application/json",
      ].map((type) => withHeader(`Content-Type: ${type}`)),
      (draft) => ({ ...draft, headers: draft.headers.filter((line) => !line.startsWith("Content-Type")) }),
      addHeaders("Content-Type: text/plain"),
    ),
  ],
  [
    "encoding",
    fixed(
      withHeader("Content-Encoding: gzip"),
      withHeader("Content-Encoding: x-unknown"),
      withHeader("Content-Encoding: identity"),
      (draft) => ({ ...withHeader("Content-Encoding: gzip")(draft), body: gzipSync(draft.body) }),
      (draft) => ({ ...withHeader("Content-Encoding: gzip")(draft), body: gzipSync(Buffer.alloc(5_000_000, " ")) }),
      (draft) => ({ ...draft, framing: "chunked" }),
    ),
  ],
  [
    "framing",
    fixed(
      framed(["Content-Length: 1000000"], (body) => body, true),
      framed(["Content-Length: 99"], (body) => body.subarray(0, 5), true),
      framed(["Content-Length: 3"], (body) => body, true),
      framed(["Content-Length: -1"], (body) => body),
      framed(["Content-Length: 1e3"], (body) => body, true),
      framed(["Content-Length: 99999999999999999999"], (body) => body, true),
      framed(["Content-Length: 5", "Content-Length: 6"], (body) => body, true),
      framed(["Content-Length: 5", "Transfer-Encoding: chunked"], () => Buffer.from("0\r\n\r\n"), true),
      framed(["Transfer-Encoding: gzip"], (body) => body, true),
      framed(["Transfer-Encoding: chunked"], () => Buffer.from("zz\r\nabc\r\n")),
      framed(["Transfer-Encoding: chunked"], () => Buffer.from("ffffffffffffffff\r\nabc"), true),
      framed(["Transfer-Encoding: chunked"], () => Buffer.from("5\r\n{}"), true),
      framed(["Transfer-Encoding: chunked"], () => Buffer.from(`2;${"x".repeat(20_000)}\r\n{}\r\n0\r\n\r\n`), true),
    ),
  ],
  [
    "query",
    fc.oneof(
      fixed(
        ...[
          "?",
          "?%",
          "?%ff=%ff",
          "?limit=1&limit=2",
          "?limit=0",
          "?limit=-1",
          "?limit=1e9",
          "?limit=",
          "?limit=%00",
          "?limit=999",
          "?cursor=",
          "?cursor=x",
          "?cursor=MSAx",
          `?cursor=${Buffer.from(`999999999999999 ${"x".repeat(200)}`).toString("base64url")}`,
          "?after=999999999999999999",
          "?after=-1",
          "?after=1.5",
          "?status=idle",
          "?status=running&status=error",
          "?since=yesterday",
          "?since=9999999999999999",
          "?until=0000-00-00",
          "?level=loud",
          "?file=../package.json",
          "?file=%2e%2e%2f",
          "?__proto__=1&constructor=2",
          "?a[b]=c&a[]=d",
          `?${"a=1&".repeat(1_500)}`,
          `?x=${"y".repeat(10_000)}`,
          "?entityType=user",
        ].map((query): Change => (draft) => ({ ...draft, query })),
      ),
      oddText.map((text): Change => (draft) => ({
        ...draft,
        query: `${draft.query || "?"}&x=${encodeURIComponent(text.toWellFormed())}`,
      })),
    ),
  ],
  [
    "header",
    fixed(
      ...["x", "-1", "1e3", "1.5", "99999999999999999999", "999999999999999", "", "0x10", "é", "1, 2", "%31"].map(
        (id) => withHeader(`Last-Event-ID: ${id}`),
      ),
      ...[
        "Accept: text/html",
        "Accept: application/xml;q=0",
        "Prefer: respond-async, wait=x",
        "Prefer: ;;;",
        "Origin: null",
        "Origin: http://a.test",
        "Cookie: a=b; __proto__=c",
        "Range: bytes=0-1",
        "If-None-Match: *",
        "If-Modified-Since: x",
        "X-HTTP-Method-Override: DELETE",
        "X-Forwarded-For: 1.1.1.1",
        "X-Forwarded-Host: x:99999",
        "X-Request-Id: \u00ff",
        "X-Original-URL: /doc",
        "traceparent: 00-x-y-01",
        "Accept-Encoding: gzip;q=x",
        "TE: trailers",
        "Upgrade-Insecure-Requests: 1",
        `X-Long: ${"x".repeat(8_000)}`,
      ].map(withHeader),
      addHeaders(...Array.from({ length: 90 }, (_, n) => `X-${n}: y`)),
    ),
  ],
  [
    "token",
    fc.oneof(
      fixed(
        ...[
          "Bearer",
          "Bearer ",
          "Bearer x",
          "Bearer x.y.z",
          "bearer a b",
          "Basic YTpi",
          `Bearer ${"x".repeat(7_000)}`,
          "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.",
          "Bearer eyJhbGciOiJIUzI1NiJ9.e30.AAAA",
          "\u00e9",
        ].map((value) => withHeader(`Authorization: ${value}`)),
        addHeaders("Authorization: Bearer x", "Authorization: Bearer y"),
      ),
    ),
  ],
  [
    "raw header",
    fixed(
      ...[
        addHeaders(`X-Long: ${"x".repeat(20_000)}`),
        addHeaders(...Array.from({ length: 3_000 }, (_, n) => `X-${n}: y`)),
        addHeaders("No colon"),
        addHeaders(": empty"),
        addHeaders("X-Nul: a\0b"),
        addHeaders("Origin: \x01"),
        addHeaders("X-Fold: a", " b"),
        addHeaders("X Space: a"),
        addHeaders("Host: localhost"),
        addHeaders("Expect: 100-continue"),
        addHeaders("Expect: x"),
        ...[
          [],
          ["Sec-WebSocket-Version: 99", "Sec-WebSocket-Key: x"],
          ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="],
        ].map((lines) => elsewhere(addHeaders("Connection: Upgrade", "Upgrade: websocket", ...lines))),
        addHeaders("Connection: close, Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"),
        ...["", "x:99999", "256.1.1.1", "a b", "[::1", "é", "localhost/x", "@", "x".repeat(300)].map((host) =>
          withHeader(`Host: ${host}`),
        ),
        (draft: Draft) => ({ ...draft, headers: draft.headers.filter((line) => !line.startsWith("Host")) }),
        ...["HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "HTTP/1.1 x", "", "http/1.1"].map((version): Change => (draft) => ({
          ...draft,
          version,
          isCut: true,
        })),
      ].map(unparsed),
    ),
  ],
  [
    "method",
    fixed(
      ...["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "QUERY", "PROPFIND", "SEARCH"].map(
        (method) => elsewhere((draft) => ({ ...draft, method })),
      ),
      ...["CONNECT", "FOO", "get", "", "G T", "P\0ST"].map((method) =>
        unparsed(elsewhere((draft) => ({ ...draft, method, isCut: true }))),
      ),
      elsewhere((draft) => ({
        ...draft,
        method: "OPTIONS",
        headers: [...draft.headers, "Origin: http://a.test", "Access-Control-Request-Method: POST"],
      })),
    ),
  ],
  [
    "path",
    fixed(
      atPath((path) => `${path}/`),
      atPath((path) => `/${path}`),
      atPath((path) => path.replaceAll("/", "//")),
      atPath((path) => `/${path.slice(1).replaceAll("/", "%2f")}`),
      atPath((path) => path.replaceAll("/", "/./")),
      atPath((path) => path.replaceAll("/", "/%2e/")),
      atPath((path) => `/x/..${path}`),
      atPath((path) => `${path}/..`),
      atPath((path) => `${path}/%2e%2e/%2e%2e`),
      atPath((path) => path.replace(/[a-z]/, (letter) => `%${letter.charCodeAt(0).toString(16)}`)),
      atPath((path) => path.replace(/[a-z]/, (letter) => `%25${letter.charCodeAt(0).toString(16)}`)),
      atPath((path) => path.toUpperCase()),
      atPath((path) => `${path}%`),
      atPath((path) => `${path}%ff`),
      atPath((path) => `${path}%00`),
      atPath((path) => `${path}%c0%af`),
      atPath((path) => `${path};a=b`),
      atPath((path) => `${path}\\x`),
      atPath((path) => `${path}/${"x".repeat(5_000)}`),
      atPath((path) => `${path}${"/x".repeat(2_000)}`),
      atPath((path) => `http://evil.test${path}`),
      atPath((path) => `http://x:99999${path}`),
      atPath((path) => `${path}#x`),
      ...[
        (path: string) => path.slice(1),
        () => "*",
        () => "",
        (path: string) => `${path} x`,
        (path: string) => `${path}é`,
      ].map((edit): Change => unparsed((draft) => ({ ...atPath(edit)(draft), isCut: true }))),
    ),
  ],
];

/** Breaks a request in none to two ways. */
export const broken: Arbitrary<Change> = fc
  .array(fc.oneof(...breaks.map(([name, change]) => change.map((by) => ({ name, by })))), { maxLength: 2 })
  .map((chosen) => (draft) => {
    const whole = chosen.reduce(
      (made, { name, by }) => ({ ...tryChange(made, by), breaks: [...made.breaks, name] }),
      draft,
    );
    return whole.path.startsWith("/") ? whole : { ...whole, isUnparsed: true };
  });

/** A body that an earlier break has made unreadable, or too deep, stays as it is. */
function tryChange(draft: Draft, by: Change): Draft {
  try {
    return by(draft);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return draft;
    throw error;
  }
}
