import type { Mode } from "./oracle-modes.ts";
import type { Route } from "./oracle-routes.ts";
import { surelyExpired, undecided, type Token, type Verdict } from "./oracle-tokens.ts";

/**
 * Who may call what, by docs/auth.md: "Open and close routes", "Errors", "Use your own CORS middleware". Written by hand from
 * there, not from the code: nothing here matches a pattern. What an entry of `publicRoutes` or `protect` opens or closes is
 * written out beside it, in the tables `oracle-modes.ts`, `oracle-routes.ts` and `oracle-tokens.ts`.
 */
export function expected(mode: Mode, route: Route, token: Token): Expected {
  const { runs } = route;
  const status = mode.provider && route.isGuarded ? [403] : route.status;
  const serve = (who: string | null): Expected => ({ refused: false, status, runs, who });
  // The cross-origin middleware comes first.
  if (route.name.startsWith("PREFLIGHT") && mode.cors !== false)
    return { refused: false, status: [204], runs, who: null };
  if (!mode.provider) return serve(null);
  const isHandshake = route.name.startsWith("UPGRADE");
  const verdict = toVerdict(mode, token, isHandshake);
  if (verdict === "valid") return serve("ada");
  if (!isClosed(mode, route)) return serve(null); // a bad token on a public route is nobody
  // With `cors: false` the host's global middleware runs around a refusal, and may not answer in its place.
  const isOutside = mode.cors === false && route.name.endsWith("| global middleware");
  return { refused: true, ...refusals[verdict], runs: isOutside ? "any" : 0 };
}

function toVerdict(mode: Mode, token: Token, isHandshake: boolean): Verdict {
  if (mode.provider === "cookie") return token.cookie;
  if (mode.provider === "keys" && token.keys) return token.keys;
  const verdict = isHandshake ? token.handshake : token.jwt;
  if (mode.provider !== "oidc" || verdict === "none") return verdict;
  if (mode.isDown && undecided.includes(token.name)) return "unavailable";
  if (mode.isDown && surelyExpired.includes(token.name)) return "expired";
  return token.oidc ?? verdict;
}

/** The order of docs/auth.md, "Open and close routes": `publicRoutes`, then `protect`, then the table. */
function isClosed({ publicRoutes = {}, protect = {}, defaultPrivate, webSockets }: Mode, route: Route): boolean {
  if (Object.values(publicRoutes).flat().includes(route.name)) return false;
  if (route.access === "file") return false; // an entry of the default `publicRoutes`
  if (Object.values(protect).flat().includes(route.name)) return true;
  if (route.name.startsWith("UPGRADE") && webSockets) return true; // each of them "demands" a token
  if (route.access === "socket") return false;
  return route.access === "closed" || defaultPrivate === true;
}

export type Expected =
  | { readonly refused: true; readonly status: number; readonly error: RegExp; readonly runs: 0 | "any" }
  | {
      readonly refused: false;
      readonly status: readonly number[];
      readonly runs: number | "any";
      readonly who: string | null;
    };

/** docs/auth.md, "Errors". A ServeError of the provider keeps its status and message. */
const refusals: Record<Exclude<Verdict, "valid">, { status: number; error: RegExp }> = {
  none: { status: 401, error: /^Authentication required$/ },
  expired: { status: 401, error: /^Token expired$/ },
  invalid: { status: 401, error: /^Invalid token: \S/ },
  banned: { status: 403, error: /^Banned$/ },
  unavailable: { status: 503, error: /^The token issuer is unavailable$/ },
};
