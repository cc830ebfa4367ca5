import { consoleCaller, type Caller, type Identity } from "../core/caller.ts";
import { type Clock, within } from "../core/clock.ts";
import { ServeError } from "../core/error.ts";
import { issuerOf } from "./oidc/provider.ts";
import type { AccessRequest, Policy } from "./policy.ts";
import type { AuthProvider } from "./provider.ts";
import { extractSocketToken, extractToken } from "./token.ts";
import { toCaller } from "./user.ts";

/** Returns the identity of a request. Throws if a required caller is missing. Otherwise ignores an invalid token. */
export type Gate = (request: Request, asked: AccessRequest & { readonly search: URLSearchParams }) => Promise<Identity>;

export interface GateOptions {
  readonly policy: Policy;
  /** True if an execution is visible only to the user who started it. */
  readonly ownership: boolean;
  /** Gets faults of the provider itself, at most one a second, as text without the token. */
  readonly report: (error: string) => void;
  readonly clock?: Clock | undefined;
}

export function createGate(provider: AuthProvider, { policy, ownership, report, clock }: GateOptions): Gate {
  const anonymous: Identity = { checked: true, ownership, caller: undefined };
  issuerOf(provider)?.onFault(report);
  let quietUntil = 0;
  function reportFault(error: Error, token: string | undefined): void {
    if (performance.now() < quietUntil) return;
    quietUntil = performance.now() + 1_000;
    const { cause } = error;
    const because = cause instanceof Error ? `\ncaused by: ${cause.stack ?? cause.message}` : "";
    report(redact((error.stack ?? error.message) + because, token));
  }

  function verified(user: PromiseLike<unknown>): Promise<unknown> {
    const verifying = within(verifyMs, user, { onLate: refuseLate });
    clock?.hold?.(verifying);
    return verifying;
  }

  return async function admit(request, asked) {
    const isNeeded = policy.decide(asked).access === "protected";
    let token: string | undefined;
    try {
      token = asked.isUpgrade ? extractSocketToken(provider, request, asked.search) : extractToken(provider, request);
      if (token !== undefined) {
        const user = provider.verifyToken(token, request);
        return { ...anonymous, caller: checkId(toCaller(isThenable(user) ? await verified(user) : user)) };
      }
    } catch (error) {
      if (error instanceof Error && isFault(error)) reportFault(error, token);
      if (isNeeded) throw toRefusal(error, token);
    }
    if (isNeeded) throw refuse("Authentication required");
    return anonymous;
  };
}

/** Throws for a user who would own what the console has started. */
function checkId(caller: Caller): Caller {
  if (caller.userId === consoleCaller.userId) throw new Error('the user id "console" is reserved');
  return caller;
}

/** Time limit of a provider. */
const verifyMs = 5_000;

function refuseLate(): never {
  throw new Error("verification timed out");
}

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as PromiseLike<unknown> | undefined)?.then === "function";

function refuse(message: string, cause?: unknown): ServeError {
  return new ServeError(401, message, { headers: [["www-authenticate", "Bearer"]], cause });
}

/** Returns the 401. A message of the provider is meant for the caller. A message of a failed dependency is not. */
function toRefusal(error: unknown, token: string | undefined): ServeError {
  if (!(error instanceof Error)) return refuse("Invalid token: rejected");
  if ("code" in error && error.code === "ERR_JWT_EXPIRED") return refuse("Token expired", error);
  const [said = ""] = error.message.split(/[\r\n]/);
  const isClean = redact(said, token) === said;
  if (error instanceof ServeError && isClean) return error.status === 401 ? withChallenge(error) : error;
  if (isFault(error)) return refuse("Invalid token: verification failed", error);
  return refuse(`Invalid token: ${(isClean && said.slice(0, 200)) || "rejected"}`, error);
}

/**
 * Returns true for a bug in the provider, or a failed service or database. The message of such an error may contain
 * addresses and names. It is recognized by its class, or by properties besides the message. Errors of JWT libraries
 * have such properties as well, but they are about the token.
 */
function isFault(error: Error): boolean {
  if (error instanceof ServeError) return false;
  if (mistakes.some((mistake) => error instanceof mistake)) return true;
  const { code = "" } = error as { code?: unknown };
  if (/JW|JOSE|TOKEN/i.test(`${String(code)} ${error.name}`)) return false;
  return Reflect.ownKeys(error).some((key) => !["stack", "message", "name"].includes(String(key)));
}
const mistakes = [TypeError, ReferenceError, RangeError, SyntaxError, AggregateError];

function withChallenge(error: ServeError): ServeError {
  if (error.headers.some(([name]) => name.toLowerCase() === "www-authenticate")) return error;
  const headers: [string, string][] = [...error.headers, ["www-authenticate", "Bearer"]];
  return new ServeError(401, error.message, { headers, cause: error.cause });
}

/** Removes the token, and each dot-separated part with 8 or more characters, in any letter case. */
function redact(text: string, token = ""): string {
  if (token === "") return text;
  const parts = [token, ...token.split(".").filter((part) => part.length >= 8)];
  const escaped = parts.map((part) => part.replace(/\W/g, String.raw`\$&`));
  return text.replace(new RegExp(escaped.join("|"), "gi"), "[token]");
}
