import type { Answer } from "./client.ts";
import type { Expected } from "./oracle.ts";
import type { Mode } from "./oracle-modes.ts";
import type { Route } from "./oracle-routes.ts";
import type { Token } from "./oracle-tokens.ts";
import { fill, secret, type Minted } from "./tokens.ts";
import { hostsOrigin } from "./world.ts";

/** One request. What its handler does is known by its key. */
export interface Case {
  readonly key: string;
  readonly route: Route;
  readonly token: Token;
  readonly due: Expected;
}

/** What is wrong with an answer. */
export function* findFaults(
  mode: Mode,
  minted: Minted,
  { route, token, due }: Case,
  { status, headers, text }: Answer,
): Generator<string> {
  if (![due.status].flat().includes(status)) return yield `${status} ${text.slice(0, 200)}, not ${due.status}`;
  if (status >= 400 && holds(text, token, minted)) yield `shows the token: ${text}`;
  if (text.includes(secret)) yield `shows the secret: ${text}`;
  if (!due.refused) {
    if (headers.has("www-authenticate")) yield "asks for a token that it does not need";
    return;
  }
  const isHead = route.name.startsWith("HEAD ");
  const error = isHead ? undefined : toError(text);
  if (!isHead && (error === undefined || !due.error.test(error))) yield `${text}, not ${due.error}`;
  const challenge = headers.get("www-authenticate");
  if (status === 503 && !/^[1-9]\d?$/.test(headers.get("retry-after") ?? "")) yield "no retry-after";
  if (status === 401 && challenge !== "Bearer") yield `www-authenticate: ${challenge}`;
  if (route.name.startsWith("UPGRADE")) return;
  const allowed = headers.get("access-control-allow-origin");
  const origin = mode.cors === false || mode.provider === "cookie" ? hostsOrigin : "*";
  if (allowed !== origin) yield `access-control-allow-origin: ${allowed}, not ${origin}`;
}

/** Whether a part of the token that was sent stands in the text. */
function holds(text: string, { authorization, headers, query }: Token, minted: Minted): boolean {
  const names = [...authorization, ...Object.values(headers), query].flatMap((value) => value.match(/<[^>]+>/g) ?? []);
  const parts = names.flatMap((name) => fill(name, minted).split("."));
  return parts.some((part) => part.length > 8 && text.includes(part));
}

/** The error of an envelope that holds nothing else. */
function toError(text: string): string | undefined {
  const [, error] = /^\{"success":false,"error":("(?:[^"\\]|\\.)*")\}$/.exec(text) ?? [];
  return error && (JSON.parse(error) as string);
}
