import { chosenBackend } from "../../harness/backends.ts";

/** In opt-in mode. `socket`: an endpoint of SPEC's rule 2, unauthenticated in both modes. */
type Access = "closed" | "open" | "socket";

export interface Route {
  /** `METHOD path`, and after a bar what else is special. UPGRADE is a GET that wants a WebSocket, PREFLIGHT an OPTIONS. */
  readonly name: string;
  readonly access: Access;
  /** What the handler answers. */
  readonly status: readonly number[];
  /** How often code of the author is then seen to run: a custom handler, a step, the model. */
  readonly runs: number | "any";
}

const row = (name: string, access: Access, status: number | number[], runs: number | "any" = 0): Route => ({
  name,
  access,
  status: [status].flat(),
  runs,
});

/** On Restate, turns of conversations are not durable. */
const isDurable = chosenBackend.name === "embedded";
const respondAsync = isDurable ? 202 : 400;

/** `{running}` and `{suspended}` are executions of the case's own, `{ended}` is one for all. */
export const routes: readonly Route[] = [
  // SPEC: "Default protected execution endpoints".
  row("POST /agents/helper/text", "closed", 200, 1),
  row("POST /agents/helper/text | broken body", "closed", 400),
  row("POST /agents/nobody/text", "closed", 404),
  row("POST /agents/helper/stream", "closed", 200, 1),
  row("POST /agents/helper/object", "closed", 200, 1),
  row("POST /agents/helper/stream-object", "closed", 200, 1),
  row("POST /workflows/quick/execute", "closed", 200, 1),
  row("POST /workflows/quick/execute | respond-async", "closed", 202, 1),
  row("POST /workflows/quick/execute | wrong input", "closed", 400),
  row("POST /workflows/nope/execute", "closed", 404),
  row("POST /workflows/quick/stream", "closed", 200, 1),
  // DESIGN: "`chat` is protected", and what is ours beyond the spec.
  row("POST /agents/helper/chat", "closed", 200, 1),
  // NEXT, section 6. `quiet` is a conversation in which nothing runs.
  row("POST /agents/helper/text | respond-async", "closed", respondAsync, isDurable ? 1 : 0),
  row("POST /agents/helper/text | respond-async without a conversation", "closed", 400),
  row("POST /agents/helper/object | respond-async without a conversation", "closed", 400),
  row("GET /agents/helper/chat/quiet/stream", "closed", 204),
  row("HEAD /agents/helper/chat/quiet/stream", "closed", 200), // a HEAD does not begin a stream
  row("GET /agents/nobody/chat/quiet/stream", "closed", 404),
  row("POST /agents/helper/chat/quiet/stream", "open", 405),
  row("POST /agents/helper/conversations/quiet/stop", "closed", 200),
  row("POST /agents/helper/conversations/quiet/stop | of a message", "closed", 409),
  row("POST /agents/nobody/conversations/quiet/stop", "closed", 404),
  row("GET /agents/helper/conversations/quiet/stop", "open", 405),
  row("GET /agents/helper/conversations", "closed", 200),
  row("HEAD /agents/helper/conversations", "closed", 200),
  row("GET /agents/helper/conversations?limit=201", "closed", 400),
  row("GET /agents/nobody/conversations", "closed", 404),
  row("POST /agents/helper/conversations", "open", 405),
  row("GET /agents/helper/conversations/quiet", "closed", 404),
  row("HEAD /agents/helper/conversations/quiet", "closed", 404),
  row("PATCH /agents/helper/conversations/quiet", "closed", 404),
  row("DELETE /agents/helper/conversations/quiet", "closed", 404),
  row("POST /agents/helper/conversations/quiet", "open", 405),
  row("GET /workflows/rare/executions", "closed", 200),
  row("HEAD /workflows/rare/executions", "closed", 200),
  // NEXT, section 4. A GET of the stream does not end: executions.test.ts has it.
  row("GET /executions", "closed", 200),
  row("HEAD /executions", "closed", 200),
  row("GET /executions?status=nope", "closed", 400),
  row("HEAD /executions/stream", "closed", 200),
  row("POST /executions", "open", 405),
  row("GET /workflows/rare/executions/{ended}/stream", "closed", 200),
  row("HEAD /workflows/rare/executions/{ended}/stream", "closed", 200),
  // NEXT: "`steps` is protected".
  row("GET /workflows/rare/executions/{ended}/steps", "closed", 200),
  row("HEAD /workflows/rare/executions/{ended}/steps", "closed", 200),
  row("GET /workflows/rare/executions/unknown/steps", "closed", 404),
  // NEXT: every route that is not in SPEC is protected.
  row("POST /workflows/asks/executions/{suspended}/retry", "closed", 409),
  row("POST /workflows/asks/executions/unknown/retry", "closed", 404),
  row("POST /workflows/waits/executions/{running}/fork", "closed", 409),
  row("POST /workflows/asks/executions/unknown/fork", "closed", 404),
  row("POST /workflows/waits/executions/{running}/cancel", "closed", 200),
  row("POST /workflows/asks/executions/{suspended}/cancel", "closed", 200),
  row("POST /workflows/asks/executions/unknown/cancel", "closed", 404),
  row("POST /events", "closed", 202),
  row("POST /events | broken body", "closed", 400),
  row("GET /events", "open", 405),
  row("GET /schedules", "closed", 200),
  row("HEAD /schedules", "closed", 200),
  row("POST /schedules", "open", 405),
  row("POST /schedules/nightly/trigger", "closed", 202),
  row("POST /schedules/unknown/trigger", "closed", 404),
  row("GET /schedules/nightly/trigger", "open", 405),
  row("POST /schedules/nightly/pause", "closed", 200),
  row("POST /schedules/unknown/pause", "closed", 404),
  row("POST /schedules/nightly/resume", "closed", 200),
  row("POST /schedules/unknown/resume", "closed", 404),
  // SPEC, rule 1, and "every other route".
  row("POST /workflows/waits/executions/{running}/suspend", "open", 200),
  row("POST /workflows/asks/executions/{suspended}/resume", "open", 200, 1),
  row("POST /workflows/asks/executions/{suspended}/resume | respond-async", "open", 202, 1),
  row("POST /workflows/asks/executions/unknown/resume", "open", 404),
  row("GET /workflows/rare/executions/{ended}/state", "open", 200),
  row("HEAD /workflows/rare/executions/{ended}/state", "open", 200),
  // SPEC: "Default public endpoints in opt-in mode".
  row("GET /agents", "open", 200),
  row("HEAD /agents", "open", 200),
  row("GET /agents/helper", "open", 200),
  row("GET /agents/nobody", "open", 404),
  row("GET /workflows", "open", 200),
  row("HEAD /workflows", "open", 200),
  row("GET /workflows/quick", "open", 200),
  row("GET /workflows/nope", "open", 404),
  row("GET /doc", "open", 200),
  row("HEAD /doc", "open", 200),
  row("GET /api/logs", "open", 200),
  row("HEAD /api/logs", "open", 200),
  row("GET /", "open", 200),
  row("HEAD /", "open", 200),
  row("GET /ui", "open", 200),
  row("HEAD /ui", "open", 200),
  row("GET /ui?file=page.js", "open", 200),
  // Built-in rows of this test's own, whose handlers can be seen to run.
  row("GET /matrix/closed/7", "closed", 200, 1),
  row("HEAD /matrix/closed/7", "closed", 200, 1),
  row("DELETE /matrix/closed/7", "closed", 200, 1),
  row("GET /matrix/open/7", "open", 200, 1),
  row("HEAD /matrix/open/7", "open", 200, 1),
  row("PATCH /matrix/open/7", "open", 200, 1),
  // Wrong methods. Only the method that the spec lists is protected.
  row("GET /agents/helper/text", "open", 405),
  row("HEAD /agents/helper/chat", "open", 405),
  row("PUT /workflows/quick/execute", "open", 405),
  row("OPTIONS /workflows/quick/execute", "open", 405),
  row("POST /workflows", "open", 405),
  row("DELETE /agents", "open", 405),
  row("POST /doc", "open", 405),
  row("POST /", "open", 405),
  row("DELETE /ui", "open", 405),
  row("POST /matrix/closed/7", "open", 405),
  // SPEC, rule 2.
  row("GET /ws", "socket", 426),
  row("HEAD /ws", "socket", 426),
  row("UPGRADE /ws", "socket", 101),
  row("GET /ws/logs", "socket", 426),
  row("UPGRADE /ws/logs", "socket", 101),
  row("GET /ws/observability", "socket", 426),
  row("UPGRADE /ws/observability", "socket", 101),
  row("POST /ws", "open", 405),
  row("GET /ws/nope", "open", 404),
  row("UPGRADE /ws/nope", "open", 404),
  // Sockets that are none.
  row("UPGRADE /nope", "open", 404),
  row("UPGRADE /agents", "open", 404),
  row("UPGRADE /workflows/rare/executions", "closed", 404),
  row("UPGRADE /hello", "open", 400, "any"),
  // Unknown paths.
  row("GET /nope", "open", 404),
  row("HEAD /nope", "open", 404),
  row("POST /nope", "open", 404),
  row("DELETE /nope/deeper", "open", 404),
  row("GET /unknown/x", "open", 404),
  row("GET /agents/helper/nope", "open", 404),
  row("POST /workflows/quick/executions/x/nope", "open", 404),
  // Custom routes.
  row("GET /hello", "open", 200, 1),
  row("HEAD /hello", "open", 200, 1),
  row("POST /hello", "open", 404),
  row("POST /things", "open", 200, 1),
  row("GET /things/7", "open", 200, 1),
  row("PUT /things/7", "open", 200, 1),
  row("PATCH /things/7", "open", 200, 1),
  row("DELETE /things/7", "open", 200, 1),
  row("DELETE /workflows/quick", "open", 200, 1),
  row("GET /files", "open", 200, 1),
  row("GET /files/a/b", "open", 200, 1),
  row("HEAD /files/a/b", "open", 200, 1),
  row("POST /files/a/b", "open", 404),
  row("GET /any", "open", 200, 1),
  row("HEAD /any", "open", 200, 1),
  row("POST /any", "open", 200, 1),
  row("DELETE /any", "open", 200, 1),
  row("OPTIONS /any", "open", 200, 1),
  row("PROPFIND /any", "open", 200, 1),
  row("patch /any", "open", 200, 1), // no method at all, but `app.all` takes it
  row("GET /admin", "open", 200, 1),
  row("GET /admin/secret", "open", 200, 1),
  row("HEAD /admin/secret", "open", 200, 1),
  row("POST /admin/secret", "open", 200, 1),
  row("GET /admin/open", "open", 200, 1),
  row("GET /area/secret", "open", 200, 1),
  row("GET /pubs", "open", 200, 1),
  row("GET /pub/deep/er", "open", 200, 1),
  row("GET /guarded", "open", 200, 2), // its own middleware, then itself
  row("GET /live", "open", 426),
  row("UPGRADE /live", "open", 101, 1),
  // A mounted H3, and a mounted fetch-style app.
  row("GET /inner", "open", 404),
  row("GET /inner/list", "open", 200, 1),
  row("POST /inner/list", "open", 200, 1),
  row("GET /inner/nope", "open", 404),
  row("GET /raw", "open", 200, 1),
  row("GET /raw/x", "open", 200, 1),
  row("HEAD /raw/x", "open", 200, 1),
  row("POST /raw/x", "open", 200, 1),
  row("PROPFIND /raw/x/y", "open", 200, 1),
  // Middleware that answers by itself: for every path, for one, and as all of a mounted H3.
  row("GET /shortcut | global middleware", "open", 200, 1),
  row("GET /scoped/x", "open", 200, 1),
  row("POST /guests/x", "open", 200, 1),
  // Preflights. With `cors: false` they reach the host's middleware, never a route; a protected one ends 401.
  row("PREFLIGHT POST /agents/helper/text", "closed", [404, 405]),
  row("PREFLIGHT GET /workflows/rare/executions", "closed", [404, 405]),
  row("PREFLIGHT GET /workflows", "open", [404, 405]),
  row("PREFLIGHT GET /hello", "open", 404),
  row("PREFLIGHT DELETE /any", "open", 404),
  row("PREFLIGHT GET /raw/x", "open", 404),
  row("PREFLIGHT GET /nope", "open", 404),
];

/** By the method that counts: HEAD is GET, and so is a handshake. */
export const isGet = ({ name }: Route): boolean => /^(GET|HEAD|UPGRADE) /.test(name);
