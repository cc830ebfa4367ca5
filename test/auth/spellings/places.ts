/** Something that needs a caller, as its author would ask for it. */
export interface Place {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

const input = "x";
const message = { id: "m", role: "user", parts: [{ type: "text", text: input }] };
const schema = { type: "object", properties: { n: { type: "number" } } };

/** Closed in either mode: built-in rows, then the host's routes. */
export const places: readonly Place[] = [
  { method: "POST", path: "/agents/a/text", body: { input } },
  { method: "POST", path: "/agents/a/object", body: { input, schema } },
  { method: "POST", path: "/agents/a/stream", body: { input } },
  { method: "POST", path: "/agents/a/stream-object", body: { input, schema } },
  { method: "POST", path: "/agents/a/chat", body: { input: [message] } },
  { method: "POST", path: "/workflows/w/execute", body: { input: {} } },
  { method: "POST", path: "/workflows/w/stream", body: { input: {} } },
  { method: "GET", path: "/workflows/w/executions" },
  { method: "POST", path: "/workflows/w/executions/e/cancel", body: {} },
  { method: "GET", path: "/workflows/w/executions/e/stream" },
  { method: "GET", path: "/test/closed/x" },
  { method: "GET", path: "/secret" },
  { method: "GET", path: "/secret/x" },
  { method: "POST", path: "/secret/x/keys" },
  { method: "GET", path: "/report-2026" },
  { method: "GET", path: "/caf%C3%A9" },
  { method: "GET", path: "/probe" },
  { method: "HEAD", path: "/probe" },
  { method: "GET", path: "/vault" },
  { method: "GET", path: "/vault/x/y" },
  { method: "GET", path: "/ledger/x" },
  { method: "GET", path: "/ledger-2026/5" },
  { method: "GET", path: "/any" },
  { method: "DELETE", path: "/any" },
  { method: "OPTIONS", path: "/any" },
  { method: "GET", path: "/guarded" },
  { method: "GET", path: "/files/x" },
  { method: "GET", path: "/files/public/..%2Fx" },
  { method: "GET", path: "/group/list" },
  { method: "POST", path: "/group/items/x" },
  { method: "GET", path: "/fetch/x" },
  { method: "PUT", path: "/fetch/x/y" },
  { method: "GET", path: "/inner/list" },
  { method: "POST", path: "/inner/items/x" },
  { method: "GET", path: "/static/x" },
];
/** Closed in opt-out mode only, and without a sentinel: what they answer is what they must not. */
export const morePlaces: readonly Place[] = [
  { method: "GET", path: "/agents" },
  { method: "GET", path: "/agents/a" },
  { method: "GET", path: "/workflows" },
  { method: "GET", path: "/workflows/w" },
  { method: "GET", path: "/" },
  { method: "GET", path: "/ui" },
  { method: "GET", path: "/ui?file=page.js" },
  { method: "GET", path: "/doc" },
  { method: "GET", path: "/api/logs" },
  { method: "GET", path: "/workflows/w/executions/e/state" },
  { method: "POST", path: "/workflows/w/executions/e/suspend", body: {} },
  { method: "POST", path: "/workflows/w/executions/e/resume", body: {} },
];
/** Whatever opens a WebSocket, or must not. */
export const socketPlaces: readonly Place[] = ["/live/x", "/live/x", "/vault/x", "/inner/list"].map(toGet);
/** Closed by `webSockets` only. */
export const moreSocketPlaces: readonly Place[] = ["/ws", "/ws/logs", "/ws/observability", "/lobby", "/lobby"].map(
  toGet,
);

function toGet(path: string): Place {
  return { method: "GET", path };
}
