import type { Wire } from "./client.ts";
import type { Route } from "./oracle-routes.ts";
import type { Token } from "./oracle-tokens.ts";
import { fill, type Minted } from "./tokens.ts";

/** The request of a case, as the oracle's shorthand says. */
export function toWire(key: string, route: Route, token: Token, minted: Minted): Wire {
  const [request = "", special] = route.name.split(" | ");
  const words = request.split(" ");
  const method = words[0]!;
  const path = words
    .at(-1)!
    .replace(/\{(running|suspended)\}/, key)
    .replace("{ended}", "ended");
  const query = fill(token.query, minted);
  const headers: [string, string][] = [["x-case", key]];
  for (const line of token.authorization) headers.push(["authorization", fill(line, minted)]);
  for (const [name, value] of Object.entries(token.headers)) headers.push([name, fill(value, minted)]);
  const wire = { path: query ? `${path}${path.includes("?") ? "&" : "?"}${query}` : path, headers };
  if (method === "UPGRADE") {
    headers.push(["connection", "Upgrade"], ["upgrade", "websocket"], ["sec-websocket-version", "13"]);
    headers.push(["sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="]);
    return { ...wire, method: "GET" };
  }
  headers.push(["origin", "http://page.test"]);
  if (method === "PREFLIGHT") {
    headers.push(["access-control-request-method", words[1]!]);
    return { ...wire, method: "OPTIONS" };
  }
  if (special?.startsWith("respond-async")) headers.push(["prefer", "respond-async"]);
  const body = special === "broken body" ? "{" : toBody(method, path, key, special);
  if (body !== undefined) headers.push(["content-type", "application/json"]);
  return { ...wire, method, body };
}

function toBody(method: string, path: string, key: string, special: string | undefined): string | undefined {
  if (method !== "POST") return undefined;
  const [, noun, , verb] = path.split("/");
  if (noun === "schedules") return undefined;
  if (path.endsWith("/resume")) return JSON.stringify({ resumeData: true });
  if (noun === "events") return JSON.stringify({ name: "paid", data: key });
  if (noun === "workflows") {
    return JSON.stringify({ input: special === "wrong input" ? {} : { n: 1 }, options: { executionId: key } });
  }
  if (path.endsWith("/stop")) return JSON.stringify(special ? { messageId: key } : {});
  if (verb === "chat") return JSON.stringify({ input: [{ role: "user", parts: [{ type: "text", text: key }] }] });
  const schema = { type: "object", properties: { said: { type: "string" } }, required: ["said"] };
  if (verb?.endsWith("object")) return JSON.stringify({ input: key, schema });
  return JSON.stringify({ input: key, ...(special === "respond-async" && { options: { conversationId: key } }) });
}
