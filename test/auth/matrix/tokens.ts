import { createHmac } from "node:crypto";
import { createSigner, type Algorithm } from "fast-jwt";

export const secret = "a-secret-of-this-test-that-is-long-enough-for-every-algorithm-of-the-family";
export const audience = "matrix-audience";
export const issuer = "matrix-issuer";

const second = 1_000;
const hour = 3_600 * second;

interface Claims {
  sub?: string;
  aud?: string | string[] | undefined;
  iss?: string | undefined;
  exp?: number;
  nbf?: number;
}

/** Made by another library than the server's. */
export function mint(claims: Claims = {}, algorithm: Algorithm = "HS256", key = secret): string {
  const now = Math.floor(Date.now() / second);
  const payload = { sub: "ada", aud: audience, iss: issuer, iat: now, exp: now + hour / second, ...claims };
  return createSigner({ algorithm, key, noTimestamp: true })(payload);
}

/** `<name>`, as the oracle writes it, becomes the token of that name. */
export function fill(text: string): string {
  return text.replace(/<([^>]+)>/g, (_, name: string) => {
    const token = minted.get(name);
    if (token === undefined) throw new Error(`no token is called ${name}`);
    return token;
  });
}

export const minted: ReadonlyMap<string, string> = mintAll();

function mintAll(): ReadonlyMap<string, string> {
  const at = (milliseconds: number): number => Math.floor((Date.now() + milliseconds) / second);
  const valid = mint();
  const [head, payload, signature] = valid.split(".") as [string, string, string];
  const [, eve] = mint({ sub: "eve" }).split(".");
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  return new Map([
    ["valid", valid],
    ["audience in a list", mint({ aud: ["another", audience] })],
    ["expired", mint({ exp: at(-hour) })],
    ["expired a second ago", mint({ exp: at(-second) })],
    ["not yet valid", mint({ nbf: at(hour) })],
    ["wrong secret", mint({}, "HS256", `${secret}.`)],
    ["expired, wrong secret", mint({ exp: at(-hour) }, "HS256", `${secret}.`)],
    ["empty secret", `${head}.${payload}.${createHmac("sha256", "").update(`${head}.${payload}`).digest("base64url")}`],
    ["HS512", mint({}, "HS512")],
    ["HS384", mint({}, "HS384")],
    ["alg none", `${encode({ alg: "none", typ: "JWT" })}.${payload}.`],
    ["alg nOnE", `${encode({ alg: "nOnE", typ: "JWT" })}.${payload}.${signature}`],
    ["wrong audience", mint({ aud: "another-audience" })],
    ["no audience", mint({ aud: undefined })],
    ["wrong issuer", mint({ iss: "another-issuer" })],
    ["no issuer", mint({ iss: undefined })],
    ["another payload", `${head}.${eve}.${signature}`],
    ["signature cut off", `${head}.${payload}.`],
    ["garbage", "garbage-3f9c1d77"],
    ["garbage with dots", "garbage-aa01.garbage-bb02.garbage-cc03"],
    ...["valid", "expired", "unknown", "nobody", "thrown text", "banned"].map(
      (name) => [`session ${name}`, `${name.replace(" ", "-")}-session-5e21`] as const,
    ),
  ]);
}
