import { consolePath } from "../../console/routes.ts";
import type { OpenServer } from "../../server/create.ts";

/** The address of the console. */
export interface ConsoleUrl {
  /** Without a token. */
  readonly url: string;
  /** The link that signs in, once. Only for the terminal and the browser of the developer, never for a log. */
  readonly link: string;
}

/** Returns the console address, or undefined without a console. */
export function toConsoleUrl({ snapshot, sessions }: OpenServer, base: string): ConsoleUrl | undefined {
  if (snapshot.replaced.has(`GET ${consolePath}`)) return undefined;
  const url = base + consolePath;
  // The fragment is never sent to a server.
  return { url, link: sessions?.link === undefined ? url : `${url}#t=${sessions.link}` };
}
