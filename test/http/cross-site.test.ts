import { describe, expect, it } from "vitest";
import { jwtAuth, type AuthProvider, type CorsOptions } from "agentserve";
import { startServer, startTestServer, type Target } from "../harness/server.ts";

const session: AuthProvider = {
  type: "session",
  extractToken: ({ headers }) => /\bsession=(\w+)/.exec(headers.get("cookie") ?? "")?.[1],
  verifyToken: (id) => ({ id }),
};
const bearer = jwtAuth({ secret: "s".repeat(32) });

interface Sent {
  method?: string;
  headers: Record<string, string>;
  cors?: CorsOptions | false;
  auth?: AuthProvider;
}

/** Sends a request with a session cookie to a custom route. Returns the status, and the users that the route saw. */
async function send({ method = "POST", headers, cors, auth = session }: Sent, target: Target = "in process") {
  const users: unknown[] = [];
  const server = await startServer(target, {
    config: {
      auth,
      server: { ...(cors !== undefined && { cors }) },
      configureApp: (app) => void app.all("/hook", (event) => void users.push(event.context.authenticatedUser?.["id"])),
    },
  });
  const response = await server.send("/hook", { method, headers: { cookie: "session=ada", ...headers } });
  const { error } = (await response.json().catch(() => ({}))) as { error?: string };
  await server.close();
  return { status: response.status, error, users };
}
const foreign = { origin: "http://evil.test", "sec-fetch-site": "cross-site" };
const refused = { status: 403, error: "Origin not allowed", users: [] };

describe("a provider that reads its token from a cookie", () => {
  it.each<[string, Sent]>([
    ["a POST", { headers: foreign }],
    ["a PUT", { method: "PUT", headers: foreign }],
    ["a PATCH", { method: "PATCH", headers: foreign }],
    ["a DELETE", { method: "DELETE", headers: foreign }],
    ["a POST of the same site but another origin", { headers: { ...foreign, "sec-fetch-site": "same-site" } }],
    ["a POST that names no origin", { headers: { "sec-fetch-site": "cross-site" } }],
    ["a POST of an old browser, which sends only the origin", { headers: { origin: "http://evil.test" } }],
    ["a POST of a hidden origin", { headers: { origin: "null" } }],
    ["a POST where cors has no origin", { headers: foreign, cors: { maxAge: 1 } }],
    ["a POST where cors allows every origin", { headers: foreign, cors: { origin: "*" } }],
    ["a POST where cors names another origin", { headers: foreign, cors: { origin: "http://friend.test" } }],
    ["a POST where a function allows every origin", { headers: foreign, cors: { origin: () => "*" } }],
  ])("refuses %s from another site if the token is in a cookie", async (_, sent) => {
    expect(await send(sent)).toEqual(refused);
  });

  it.each<[string, Sent]>([
    ["the origin is named", { headers: foreign, cors: { origin: ["http://evil.test"] } }],
    ["a function names the origin", { headers: foreign, cors: { origin: (origin) => origin } }],
    ["the page is of the server's own origin", { headers: { ...foreign, "sec-fetch-site": "same-origin" } }],
    ["the user typed the address", { headers: { "sec-fetch-site": "none" } }],
    ["an old browser sends the server's own origin", { headers: { origin: "http://localhost" } }],
    ["the client is not a browser", { headers: {} }],
    ["it is a GET", { method: "GET", headers: foreign }],
    ["the host handles cross-origin requests itself", { headers: foreign, cors: false }],
  ])("serves a request with a cookie token if %s", async (_, sent) => {
    expect(await send(sent)).toMatchObject({ status: 200, users: ["ada"] });
  });

  it.each<Target>(["dev", "start"])(
    "opens no WebSocket for a page of another site if the token is in a cookie (%s)",
    async (target) => {
      const server = await startTestServer(target, { config: { auth: session } });
      const headers = { cookie: "session=ada", origin: "http://evil.test" };
      await expect(server.socket("/ws", { headers })).rejects.toMatchObject({ status: 403 });
    },
  );

  it.each<Target>(["dev", "start"])(
    "refuses a cross-site POST with a cookie token over a socket (%s)",
    async (target) => {
      expect(await send({ headers: foreign }, target)).toEqual(refused);
    },
  );
});

describe("a provider that reads the Authorization header", () => {
  it("serves pages of every origin if cors is omitted and the token is in a header", async () => {
    expect(await send({ headers: foreign, auth: bearer })).toMatchObject({ status: 200, users: [undefined] });
  });
});
