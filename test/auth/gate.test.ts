import { describe, expect, it } from "vitest";
import { ServeError, type AuthProvider } from "agentserve";
import { startServer } from "../harness/server.ts";

const token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl";

/** What a caller hears, and what the log holds, when a provider does this. */
async function hear(verifyToken: () => unknown, sent = token, times = 1) {
  const auth = { type: "own", verifyToken, defaultPrivate: true, publicRoutes: ["GET /doc"] } as AuthProvider;
  const server = await startServer("in process", { config: { auth } });
  const ask = () => server.get("/workflows", { headers: { authorization: `Bearer ${sent}` } });
  let answer = await ask();
  for (let n = 1; n < times; n++) answer = await ask();
  const { logs } = server;
  await server.close();
  return { status: answer.status, error: answer.body.error, challenge: answer.headers.get("www-authenticate"), logs };
}
const throwing = (error: unknown) => () => {
  throw error;
};
const failing = (message: string, more: object) => throwing(Object.assign(new Error(message), more));

describe("a provider that refuses", () => {
  it.each<[string, unknown, string]>([
    ["an error", new Error("no such key"), "Invalid token: no such key"],
    ["an error of several lines", new Error("no such key\n    at /srv/app/keys.ts:3"), "Invalid token: no such key"],
    ["a very long error", new Error("x".repeat(10_000)), `Invalid token: ${"x".repeat(200)}`],
    ["an error without a message", new Error(""), "Invalid token: rejected"],
    ["a text", "nope", "Invalid token: rejected"],
    ["null", null, "Invalid token: rejected"],
    ["undefined", undefined, "Invalid token: rejected"],
    ["an object", { message: "mine", status: 200 }, "Invalid token: rejected"],
    [
      "an error of another JWT library",
      Object.assign(new Error("jwt malformed"), { name: "JsonWebTokenError", inner: 1 }),
      "Invalid token: jwt malformed",
    ],
    ["an error of its own class", new (class KeyError extends Error {})("no such key"), "Invalid token: no such key"],
    [
      "an error with the code ERR_JWT_EXPIRED",
      Object.assign(new Error("whatever"), { code: "ERR_JWT_EXPIRED" }),
      "Token expired",
    ],
    ["an error with the token", new Error(`bad ${token}`), "Invalid token: rejected"],
    [
      "an error with a part of the token",
      new Error(`bad ${token.split(".")[1]!.toUpperCase()}`),
      "Invalid token: rejected",
    ],
    [
      "an error with a part of the token before a line break",
      new Error(`${token.split(".")[2]}\nbad`),
      "Invalid token: rejected",
    ],
    ["a long error that ends with the token", new Error("x".repeat(190) + token), "Invalid token: rejected"],
    ["a ServeError with the token", new ServeError(429, `slow down, ${token}`), "Invalid token: rejected"],
  ])("refuses a caller with 401 if the provider throws %s", async (_, error, message) => {
    expect(await hear(throwing(error))).toEqual({ status: 401, error: message, challenge: "Bearer", logs: [] });
  });

  it("answers with the status and the challenge of a ServeError", async () => {
    expect(await hear(throwing(new ServeError(429, "Slow down")))).toMatchObject({ status: 429, error: "Slow down" });
    expect(await hear(throwing(new ServeError(401, "Who?")))).toMatchObject({ error: "Who?", challenge: "Bearer" });
    const digest = new ServeError(401, "Who?", { headers: [["WWW-Authenticate", "Digest"]] });
    expect(await hear(throwing(digest))).toMatchObject({ challenge: "Digest" });
  });

  it("does not show a short token in the 401", async () => {
    expect(await hear(throwing(new Error("no key k1")), "k1")).toMatchObject({ error: "Invalid token: rejected" });
  });
});

describe("a provider that fails", () => {
  it.each<[string, () => unknown]>([
    ["a TypeError", throwing(new TypeError("Cannot read properties of undefined (reading 'db-7.internal')"))],
    ["an error of the network", failing("connect ECONNREFUSED 10.0.0.5:5432", { errno: -111, code: "ECONNREFUSED" })],
    [
      "an error of ofetch",
      failing('[POST] "http://auth.internal/?client_secret=hunter2": 503', { status: 503, request: {} }),
    ],
    [
      "an error of a database",
      failing("password authentication failed for user app", { code: "28P01", severity: "FATAL" }),
    ],
    ["several errors at once", throwing(new AggregateError([new Error("x")], "connect ECONNREFUSED 10.0.0.5:5432"))],
    ["an error with a cause", throwing(new Error("selection failed on mongo-1.internal", { cause: new Error("x") }))],
  ])("keeps the message of %s for the log", async (_, verifyToken) => {
    const { status, error, logs } = await hear(verifyToken);
    expect([status, error]).toEqual([401, "Invalid token: verification failed"]);
    expect(logs).toMatchObject([{ level: "error", message: "The authentication provider failed" }]);
    expect(JSON.stringify(logs)).not.toContain(token);
  });

  it("logs the cause of a failed provider", async () => {
    const { logs } = await hear(throwing(new TypeError("fetch failed", { cause: new Error("ECONNREFUSED") })));
    expect(logs[0]!.data!["error"]).toMatch(/fetch failed[^]*caused by: Error: ECONNREFUSED/);
  });

  it("logs a failing provider at most once a second, without the token", async () => {
    const { logs } = await hear(throwing(new TypeError(`cannot read ${token}`)), token, 50);
    expect(logs.length).toBeLessThan(5);
    expect(JSON.stringify(logs)).toContain("cannot read [token]");
    expect(JSON.stringify(logs)).not.toContain(token);
  });
});

describe("the user of a provider", () => {
  it.each<[string, unknown, string]>([
    ["nothing", undefined, "the provider returned no user"],
    ["null", null, "the provider returned no user"],
    ["an array", [1], "the provider returned no user"],
    ["a text", "ada", "the provider returned no user"],
    ["a number", 7, "the provider returned no user"],
    ["a function", () => ({ id: "ada" }), "the provider returned no user"],
    [
      "an id that two users may share",
      { id: 9_007_199_254_740_992 },
      "the id of the user must be a non-empty string or a safe integer",
    ],
    ["an id that is an object", { id: {} }, "the id of the user must be a non-empty string or a safe integer"],
    ["an empty id", { id: "" }, "the id of the user must be a non-empty string or a safe integer"],
  ])("refuses a caller with 401 if the user is %s, or a promise of it", async (_, user, reason) => {
    for (const verify of [() => user, async () => user])
      expect(await hear(verify)).toMatchObject({ status: 401, error: `Invalid token: ${reason}`, logs: [] });
  });
  it("refuses a caller with 401 if the user cannot be written as JSON", async () => {
    const { error, logs } = await hear(() => ({ id: "ada", big: 1n }));
    expect([error, logs.length]).toEqual(["Invalid token: verification failed", 1]);
  });
});
