import { UserError } from "../../core/user-error.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import type { Target } from "./target.ts";

/** The error of a request that the server rejected. */
export class RefusalError extends UserError {
  readonly status: number;

  constructor(status: number, message: string, hint?: string) {
    super(message, { hint });
    this.status = status;
  }
}

/**
 * The error of a connection that failed or was lost. The server may still process the request, unless `wasSent` is false.
 */
export class ConnectionError extends UserError {
  readonly wasSent: boolean;

  constructor(message: string, { hint, wasSent }: { hint?: string; wasSent: boolean }) {
    super(message, { hint });
    this.wasSent = wasSent;
  }
}

/** The server shows callers no reason of a failure. */
const inLog = "see the log of the server for the reason";

export function toRefusalError(status: number, message: string, { token }: Target): RefusalError {
  const make = "create one for the project in this folder: npx agentserve token --sub ada";
  const hints: Record<number, string> = {
    401: `pass a ${token ? "valid token" : "token"} with --token or AGENTSERVE_TOKEN; ${make}`,
    500: inLog,
    502: inLog,
    503: "try again in a moment",
  };
  return new RefusalError(status, `${message} (${status})`, hints[status]);
}

export function redirected({ status, headers }: Response, { url }: Target): UserError {
  const to = URL.parse(headers.get("location") ?? "", url);
  const hint = to ? `did you mean --url ${toVisible(to.origin, { max: 300 })}? No request was sent there` : undefined;
  return new UserError(`${url} answered with a redirect (${status}): expected an agentserve server`, { hint });
}

export const notOurs = ({ url }: Target): UserError =>
  new UserError(`Unexpected response from ${url}: expected the JSON or events of an agentserve server`, {
    hint: "is another server running there? Set the URL with --url or AGENTSERVE_URL",
  });

export function toConnectionError(error: unknown, { url }: Target, signal: AbortSignal | undefined): Error {
  if (signal?.aborted && signal.reason instanceof UserError) return signal.reason;
  const { code, message } = innermost(error);
  if (message === "bad port") {
    return new UserError(`The port of ${url} is reserved for another protocol: fetch blocks it`);
  }
  if (code.startsWith("CERT_") || code.includes("SELF_SIGNED") || code.includes("UNABLE_TO_")) {
    return new UserError(`The certificate of ${url} is not trusted (${code})`, {
      hint: "trust it with NODE_EXTRA_CA_CERTS=<file>",
    });
  }
  if (["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"].includes(code)) {
    const hint = "start a server with npx agentserve dev, or set the URL with --url or AGENTSERVE_URL";
    return new ConnectionError(`Cannot connect to ${url} (${code})`, { hint, wasSent: false });
  }
  return new ConnectionError(`The connection to ${url} was closed or timed out${code && ` (${code})`}`, {
    wasSent: true,
  });
}

/** Returns the innermost error. `ofetch` wraps the `fetch` error, and `fetch` the socket error. */
function innermost(error: unknown): { code: string; message: unknown } {
  let code = "";
  let message: unknown;
  let one = error as { code?: unknown; message?: unknown; cause?: unknown; errors?: unknown[] } | undefined;
  for (let depth = 0; one && depth < 8; depth++) {
    if (typeof one.code === "string") code = one.code;
    message = one.message;
    one = (one.cause ?? one.errors?.[0]) as typeof one;
  }
  return { code: toVisible(code, { max: 60 }), message };
}
