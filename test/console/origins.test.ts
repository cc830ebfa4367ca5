import { describe, expect, it } from "vitest";
import { jwtAuth, type Config } from "agentserve";
import { corsHeadersOf, openConsole } from "./world.ts";

// A page of another origin, a name that resolves to this machine, and the spellings of a path.
const secret = "a secret of at least thirty-two bytes";
const exchange = "/console/api/session";
const problem = "/console/api/problem";
const page = "http://evil.test";

const settings: [string, Config][] = [
  ["cors for all", {}],
  ["cors that names the page", { server: { cors: { origin: [page], credentials: true } } }],
  ["cors that names another page", { server: { cors: { origin: "http://other.test" } } }],
  ["cors of a function", { server: { cors: { origin: (origin) => origin, credentials: true } } }],
  [
    "cors of the host",
    {
      server: { cors: false },
      configureApp: (app) =>
        void app.use(({ res }) => {
          res.headers.set("access-control-allow-origin", page);
          res.headers.set("access-control-allow-headers", "*");
        }),
    },
  ],
  ["a provider", { auth: jwtAuth({ secret, defaultPrivate: true }) }],
];

describe.each(settings)("/console/api with %s", (_, config) => {
  it("/console/api refuses requests of another origin, also with a session, and sends no CORS headers", async () => {
    const { ask, signIn, server } = await openConsole(config);
    const session = await signIn();
    const { link } = server.sessions!;
    for (const origin of [page, "null", "file://", "http://localhost", "http://127.0.0.1", "http://127.0.0.1:1"]) {
      const answers = [
        await ask(exchange, { headers: { origin }, json: { token: link } }),
        // Sent without a preflight.
        await ask(exchange, { headers: { origin, "content-type": "text/plain" }, json: { token: link } }),
        await ask(problem, { headers: { origin, ...session } }),
        await ask(problem, { method: "HEAD", headers: { origin, ...session } }),
        await ask("/console/api/nope", { headers: { origin, ...session } }),
        await ask(exchange, {
          method: "OPTIONS",
          headers: {
            origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
          },
        }),
      ];
      for (const answer of answers) expect([origin, answer.status, corsHeadersOf(answer)]).toEqual([origin, 403, []]);
    }
    expect(server.sessions!.link).toBe(link); // none of them used it up
  });

  it("/console/api answers its own origin, and clients without one, without CORS headers", async () => {
    const { ask, signIn, url } = await openConsole(config);
    const session = await signIn();
    const own: Record<string, string>[] = [{}, { origin: url }, { origin: url, "sec-fetch-site": "same-origin" }];
    for (const headers of own) {
      const answers = [
        await ask(problem, { headers: { ...session, ...headers } }),
        await ask("/console/api/routes", { headers: { ...session, ...headers } }),
      ];
      for (const answer of answers) expect([answer.status, corsHeadersOf(answer)]).toEqual([200, []]);
      const refusals = [
        await ask(problem, { headers }),
        await ask(exchange, { headers, json: { token: "x" } }),
        await ask(problem, { method: "DELETE", headers: { ...session, ...headers } }),
        await ask("/console/api/nope", { headers: { ...session, ...headers } }),
        await ask(exchange, { method: "OPTIONS", headers }),
      ];
      expect(refusals.map(({ status }) => status)).toEqual([401, 401, 405, 404, 405]);
      for (const answer of refusals) expect(corsHeadersOf(answer)).toEqual([]);
    }
  });
});

it("/console/api refuses requests whose Sec-Fetch-Site is another site", async () => {
  const { ask, signIn } = await openConsole();
  const session = await signIn();
  for (const site of ["cross-site", "same-site"])
    expect((await ask(problem, { headers: { ...session, "sec-fetch-site": site } })).status).toBe(403);
  for (const site of ["same-origin", "none"])
    expect((await ask(problem, { headers: { ...session, "sec-fetch-site": site } })).status).toBe(200);
});

it("no route takes a console session from a page of another origin", async () => {
  const { ask, signIn, url } = await openConsole({ auth: jwtAuth({ secret, defaultPrivate: true }) });
  const session = await signIn();
  const statusOf = async (origin: string) => (await ask("/agents", { headers: { ...session, origin } })).status;
  expect([await statusOf(url), await statusOf(page), await statusOf("null")]).toEqual([200, 403, 403]);
});

it("the console refuses a Host that a page has made resolve to this machine", async () => {
  const { ask, server } = await openConsole();
  const json = { token: server.sessions!.link };
  for (const host of ["evil.test", "evil.test:3141", "127.0.0.1.evil.test", "localhost.evil.test"]) {
    // The page and the request have the same origin there, so the Host is all that tells them apart.
    const headers = { host, origin: `http://${host}`, "sec-fetch-site": "same-origin" };
    expect(await ask(exchange, { headers, json })).toMatchObject({ status: 403, body: { error: "Host not allowed" } });
    expect((await ask("/console", { headers })).status).toBe(403);
  }
  const headers = { host: "localhost:3141", origin: "http://localhost:3141" };
  expect((await ask(exchange, { headers, json })).status).toBe(200);
});

it("/console/api refuses other origins under every spelling of its paths", async () => {
  const { ask, signIn } = await openConsole();
  const session = await signIn();
  const spellings = [
    "/console/api/problem /console/api/problem/ /console/%61pi/problem /%63onsole/api/problem",
    "/console/api/%70roblem /console/./api/problem /console/%2e/api/problem /x/../console/api/problem",
    "/x/%2e%2e/console/api/problem /console/x/..%2fapi/problem //console/api/problem",
    "/console//api/problem /console/api//problem /console\\api\\problem /console/api/problem?x=/..",
    "/console/api%2fproblem /CONSOLE/api/problem /console/api/problem%00 /console/api/problem;x",
    "/console/api /console/api/ /ui/../console/api/problem",
  ].flatMap((line) => line.split(" "));
  let reached = 0;
  for (const path of spellings) {
    const own = await ask(path, { headers: session });
    const foreign = await ask(path, { headers: { ...session, origin: page } });
    const isReached = own.body?.data?.problem !== undefined;
    if (isReached) reached++;
    // A session of a page of another origin is refused in any case.
    expect([path, own.status, foreign.status]).toEqual([path, isReached ? 200 : 404, 403]);
    if (isReached) expect([path, corsHeadersOf(own), corsHeadersOf(foreign)]).toEqual([path, [], []]);
    const anonymous = await ask(path, { headers: { origin: page } });
    expect([path, anonymous.status]).toEqual([path, isReached ? 403 : anonymous.status]);
    expect(anonymous.text).not.toContain('"success":true');
  }
  expect(reached).toBeGreaterThan(6);
});

it("/console/api answers 405 to all other methods", async () => {
  const { ask, signIn } = await openConsole({ auth: jwtAuth({ secret }) });
  const session = await signIn();
  for (const method of ["PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "TRACE"]) {
    expect([method, (await ask(exchange, { method, headers: session })).status]).toEqual([method, 405]);
    expect([method, (await ask(problem, { method, headers: session })).status]).toEqual([method, 405]);
  }
  expect((await ask(exchange, { headers: session })).status).toBe(405);
  const head = await ask(problem, { method: "HEAD", headers: session });
  expect([head.status, head.text]).toEqual([200, ""]);
  expect((await ask(problem, { method: "HEAD" })).status).toBe(401);
});
