import { onTestFinished } from "vitest";
import type { AuthProvider, Config, OidcAuthOptions } from "agentserve";
import type { Clock, ClockTimer } from "../../../src/core/clock.ts";
import { createOidcProvider } from "../../../src/auth/oidc/provider.ts";
import { startServer, type Target, type TestServer } from "../../harness/server.ts";
import { startIssuer, type IssuerOptions, type TestIssuer } from "./issuer.ts";

/** An issuer, and a server that accepts its tokens. The test moves the clock of the provider. */
export interface World {
  readonly issuer: TestIssuer;
  readonly server: TestServer;
  readonly clock: HandClock;
  /** The status, the error and the user of a request to a closed route, or to an open one. */
  ask(token: string | undefined, path?: "/me" | "/open"): Promise<Asked>;
}
export interface Asked {
  readonly status: number;
  readonly error: string | undefined;
  readonly user: string | null | undefined;
  readonly retryAfter: string | null;
}

export async function createWorld(
  options: Partial<OidcAuthOptions> & { target?: Target; issuerOptions?: IssuerOptions; config?: Config } = {},
): Promise<World> {
  const { target = "in process", issuerOptions, config, ...more } = options;
  const clock = createHandClock();
  const issuer = await startIssuer({ now: () => clock.now(), ...issuerOptions });
  const auth = createOidcProvider(
    { issuer: issuer.url, audience: issuer.audience, protect: ["GET /me"], ...more },
    clock,
  );
  const server = await serve(auth, target, config);
  onTestFinished(async () => {
    await server.close();
    await issuer.close();
  });
  return { issuer, server, clock, ask: (token, path) => ask(server, token, path) };
}

export const serve = (auth: AuthProvider, target: Target = "in process", config: Config = {}): Promise<TestServer> =>
  startServer(target, {
    config: {
      ...config,
      auth,
      configureApp(app) {
        for (const path of ["/me", "/open"])
          app.get(path, (event) => ({ user: event.context.authenticatedUser?.["id"] ?? null }));
      },
    },
  });

export async function ask(server: TestServer, token: string | undefined, path = "/me"): Promise<Asked> {
  const response = await server.send(
    path,
    token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } },
  );
  const { error, user } = (await response.json()) as { error?: string; user?: string | null };
  return { status: response.status, error, user, retryAfter: response.headers.get("retry-after") };
}

/** A clock that moves at once. That of `agentserve/testing` waits for the work of the server, which never ends under load. */
interface HandClock extends Clock {
  advance(ms: number): void;
}

function createHandClock(): HandClock {
  const start = Date.now();
  let elapsed = 0;
  const calls = new Map<ClockTimer, { due: number; callback: () => void }>();
  return {
    now: () => start + elapsed,
    monotonic: () => elapsed,
    setTimeout(callback, ms) {
      const timer: ClockTimer = { unref: () => timer };
      calls.set(timer, { due: elapsed + ms, callback });
      return timer;
    },
    clearTimeout: (timer) => void (timer && calls.delete(timer)),
    advance(ms) {
      elapsed += ms;
      for (const [timer, { due, callback }] of calls) {
        if (due > elapsed) continue;
        calls.delete(timer);
        callback();
      }
    },
  };
}
