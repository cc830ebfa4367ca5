import { describe } from "../../core/schemas/explain.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import { UsageError } from "../usage.ts";

export interface CallFlags {
  readonly url?: string;
  readonly token?: string;
  readonly conversation?: string;
  readonly execution?: string;
  readonly resume?: string;
  readonly json?: boolean;
}

/** The URL of the server, and the token to send. */
export interface Target {
  /** The URL, without a trailing slash. */
  readonly url: string;
  readonly token: string | undefined;
  /** The flag with which a printed command reaches the same server. */
  readonly flag: string;
}

/** Resolves the target. A flag overrides the environment. An empty value counts as missing. */
export function toTarget(flags: CallFlags): Target {
  const fromFlag = flags.url || undefined;
  const url = fromFlag
    ? toUrl(fromFlag, "--url")
    : toUrl(process.env["AGENTSERVE_URL"] || "http://127.0.0.1:3141", "AGENTSERVE_URL");
  const token = flags.token
    ? toToken(flags.token, "--token")
    : toToken(process.env["AGENTSERVE_TOKEN"] || undefined, "AGENTSERVE_TOKEN");
  return { url, token, flag: fromFlag ? ` --url ${url}` : "" };
}

function toUrl(text: string, from: string): string {
  const url = URL.parse(text);
  const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
  if (url && isHttp && (url.username || url.password)) {
    throw new UsageError(`${from}: expected a URL without a user name and password`, {
      hint: "pass a token with --token or AGENTSERVE_TOKEN",
    });
  }
  // Even a text that is not a valid URL may contain a password.
  const found = text.includes("@") ? "something else" : toVisible(describe(text));
  if (!url || !isHttp) throw new UsageError(`${from}: expected an http or https URL, found ${found}`);
  if (url.search || url.hash) throw new UsageError(`${from}: expected a URL without a query or hash, found ${found}`);
  return url.origin + url.pathname.replace(/\/+$/, "");
}

/** Validates the token before it is sent, because an error of `fetch` would print it. */
function toToken(text: string | undefined, from: string): string | undefined {
  const token = text?.trim();
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    throw new UsageError(`${from}: expected a token of printable ASCII characters, without spaces and line breaks`, {
      hint: "create one with: npx agentserve token --sub ada",
    });
  }
  return token;
}
