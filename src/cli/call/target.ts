import { describe } from "../../core/explain.ts";
import { toVisible } from "../../core/visible.ts";
import { UsageError } from "../usage.ts";

export interface CallFlags {
  readonly url?: string;
  readonly token?: string;
  readonly conversation?: string;
  readonly execution?: string;
  readonly resume?: string;
  readonly json?: boolean;
}

/** Where the server is, and who asks it. */
export interface Target {
  /** Without a slash at its end. */
  readonly url: string;
  readonly token: string | undefined;
  /** What a command needs in order to reach the same server. */
  readonly flag: string;
}

/** A flag beats the environment. What is empty counts as absent. */
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
      hint: "--token or AGENTSERVE_TOKEN says who is asking",
    });
  }
  // What is no URL, or none of ours, may have a password in it all the same.
  const found = text.includes("@") ? "something else" : toVisible(describe(text));
  if (!url || !isHttp) throw new UsageError(`${from}: expected an http or https URL, found ${found}`);
  if (url.search || url.hash) throw new UsageError(`${from}: expected a URL without ? and #, found ${found}`);
  return url.origin + url.pathname.replace(/\/+$/, "");
}

/** Checked here: the error of `fetch` would show it. */
function toToken(text: string | undefined, from: string): string | undefined {
  const token = text?.trim();
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    throw new UsageError(`${from}: expected a token of plain letters, without spaces and line breaks`, {
      hint: "npx agentserve token --sub ada makes one",
    });
  }
  return token;
}
