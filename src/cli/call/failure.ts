import { UserError } from "../../core/user-error.ts";
import { toVisible } from "../../core/visible.ts";
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
 * The error of a connection that failed or was lost. The server may still process the request, unless `heard` is false.
 */
export class ConnectionError extends UserError {
  readonly heard: boolean;

  constructor(message: string, { hint, heard }: { hint?: string; heard: boolean }) {
    super(message, { hint });
    this.heard = heard;
  }
}

export function toRefusalError(status: number, message: string, { token }: Target): RefusalError {
  const make = "npx agentserve token --sub ada makes one for a server of this folder";
  const hints: Record<number, string> = {
    401: `${token ? "pass another one" : "say who is asking"} with --token or AGENTSERVE_TOKEN; ${make}`,
    503: "try again in a moment",
  };
  return new RefusalError(status, `${message} (${status})`, hints[status]);
}

export function redirected({ status, headers }: Response, { url }: Target): UserError {
  const to = URL.parse(headers.get("location") ?? "", url);
  const hint = to ? `should it be --url ${toVisible(to.origin, { most: 300 })}? Nothing was sent there` : undefined;
  return new UserError(`${url} answered with a redirect (${status}): expected agentserve itself`, { hint });
}

export const notOurs = ({ url }: Target): UserError =>
  new UserError(`${url} answered, but not as agentserve does: expected its JSON or its events`, {
    hint: "is another server there? --url or AGENTSERVE_URL says where yours is",
  });

export function toConnectionError(error: unknown, { url }: Target, signal: AbortSignal | undefined): Error {
  if (signal?.aborted && signal.reason instanceof UserError) return signal.reason;
  const { code, message } = innermost(error);
  if (message === "bad port") {
    return new UserError(`${url} has a port that belongs to another protocol: fetch refuses it`);
  }
  if (code.startsWith("CERT_") || code.includes("SELF_SIGNED") || code.includes("UNABLE_TO_")) {
    return new UserError(`${url} shows a certificate that is not trusted here (${code})`, {
      hint: "NODE_EXTRA_CA_CERTS=<file> names one that is",
    });
  }
  if (["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"].includes(code)) {
    const hint = "npx agentserve dev starts a server; --url or AGENTSERVE_URL says where another one is";
    return new ConnectionError(`No server answers at ${url} (${code})`, { hint, heard: false });
  }
  return new ConnectionError(`${url} closed the connection or fell silent${code && ` (${code})`}: expected an answer`, {
    heard: true,
  });
}

/** Returns the innermost error. `ofetch` wraps the error of `fetch`, which wraps that of the socket. */
function innermost(error: unknown): { code: string; message: unknown } {
  let code = "";
  let message: unknown;
  let one = error as { code?: unknown; message?: unknown; cause?: unknown; errors?: unknown[] } | undefined;
  for (let depth = 0; one && depth < 8; depth++) {
    if (typeof one.code === "string") code = one.code;
    message = one.message;
    one = (one.cause ?? one.errors?.[0]) as typeof one;
  }
  return { code: toVisible(code, { most: 60 }), message };
}
