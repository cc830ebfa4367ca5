import { anonymous, type Identity } from "../core/caller.ts";
import { ServeError } from "../core/error.ts";
import type { Asked, Policy } from "./policy.ts";
import type { AuthProvider } from "./provider.ts";
import { extractSocketToken, extractToken } from "./token.ts";
import { toCaller } from "./user.ts";

/** Who asks. Throws the 401 where a caller is needed and there is none; elsewhere a token that is no good is no token. */
export type Gate = (request: Request, asked: Asked & { readonly search: URLSearchParams }) => Promise<Identity>;

/** `report` hears what is wrong with the provider itself, as text without the token. */
export function createGate(provider: AuthProvider, policy: Policy, report: (error: string) => void): Gate {
  return async function admit(request, asked) {
    const isNeeded = policy.decide(asked).access === "protected";
    let token: string | undefined;
    try {
      token = asked.isUpgrade ? extractSocketToken(provider, request, asked.search) : extractToken(provider, request);
      if (token !== undefined) {
        const user = provider.verifyToken(token, request);
        return { checked: true, caller: toCaller(isThenable(user) ? await within(verifyMs, user) : user) };
      }
    } catch (error) {
      const refusal = toRefusal(error, token, report);
      if (isNeeded) throw refusal;
    }
    if (isNeeded) throw refuse("Authentication required");
    return anonymous;
  };
}

/** How long a provider may take. */
const verifyMs = 5_000;

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as PromiseLike<unknown> | undefined)?.then === "function";

function refuse(message: string, cause?: unknown): ServeError {
  return new ServeError(401, message, { headers: [["www-authenticate", "Bearer"]], cause });
}

/** What the caller hears. A provider's own words are meant for it; those of a failing provider are not. */
function toRefusal(error: unknown, token: string | undefined, report: (error: string) => void): ServeError {
  if (error instanceof ServeError) return error.status === 401 ? withChallenge(error) : error;
  if (!(error instanceof Error)) return refuse("Invalid token: rejected");
  const { code } = error as { code?: unknown };
  if (code === "ERR_JWT_EXPIRED") return refuse("Token expired", error);
  if (isFault(error)) {
    report(redact(error.stack ?? error.message, token));
    return refuse("Invalid token: it could not be verified", error);
  }
  const [reason = ""] = redact(error.message, token).split(/[\r\n]/);
  return refuse(`Invalid token: ${reason.slice(0, 200) || "rejected"}`, error);
}

/**
 * A mistake in the provider's code, or a service or database that fails it: their texts may hold addresses and names. What
 * drivers throw has a code; so has what JWT libraries throw, which is about the token.
 */
function isFault(error: Error): boolean {
  const { code } = error as { code?: unknown };
  if (mistakes.some((mistake) => error instanceof mistake)) return true;
  return code !== undefined && !/JW|JOSE|TOKEN/i.test(String(code));
}
const mistakes = [TypeError, ReferenceError, RangeError, SyntaxError, AggregateError];

function withChallenge(error: ServeError): ServeError {
  if (error.headers.some(([name]) => name.toLowerCase() === "www-authenticate")) return error;
  const headers: [string, string][] = [...error.headers, ["www-authenticate", "Bearer"]];
  return new ServeError(401, error.message, { headers, cause: error.cause });
}

/** Neither the token nor a part of it. */
function redact(text: string, token = ""): string {
  const secrets = [token, ...token.split(".")].filter((part) => part.length >= 8);
  return secrets.reduce((rest, part) => rest.replaceAll(part, "[token]"), text);
}

function within<T>(ms: number, value: PromiseLike<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const timer = setTimeout(() => reject(new Error("it took too long to verify")), ms);
  value.then(resolve, reject);
  return promise.finally(() => clearTimeout(timer));
}
