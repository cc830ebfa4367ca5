import { tokenProtocol } from "../sockets/socket.ts";
import type { AuthProvider } from "./provider.ts";

/** Returns the token of a request, from the place where the provider expects it. */
export function extractToken(provider: AuthProvider, request: Request): string | undefined {
  const token = provider.extractToken ? provider.extractToken(request) : bearer(request);
  if (token === undefined || token === null || token === "") return undefined;
  if (typeof token !== "string") throw new TypeError("extractToken() must return a string");
  return token;
}

/**
 * Returns the token of a WebSocket request. A browser cannot set headers on a WebSocket, so it uses `new WebSocket(url,
 * ["bearer", token])` or `?token=`. A custom extractor replaces these places as well: behind an authenticating proxy, a
 * client controls the query and the protocols, but not the extractor's header.
 */
export function extractSocketToken(
  provider: AuthProvider,
  request: Request,
  search: URLSearchParams,
): string | undefined {
  if (provider.extractToken) return extractToken(provider, request);
  const protocols = (request.headers.get("sec-websocket-protocol") ?? "").split(",").map((name) => name.trim());
  const at = protocols.indexOf(tokenProtocol) + 1;
  return extractToken(provider, request) ?? ((at > 0 && protocols[at]) || search.get("token") || undefined);
}

function bearer({ headers }: Request): string | undefined {
  const header = headers.get("authorization");
  if (header === null) return undefined;
  // Repeated headers arrive as one, joined by commas. Other schemes also have commas, but only before `name=value`.
  const [, ...more] = header.replace(/"[^"]*"/g, '""').split(",");
  if (!more.every((part) => /^\s*[\w-]+\s*=\s*[^\s=]/.test(part)))
    throw new Error("more than one Authorization header");
  if (header.slice(0, 7).toLowerCase() !== "bearer ") return undefined;
  const token = header.slice(7).trim();
  if (/[\s,]/.test(token)) throw new Error("malformed");
  return token;
}
