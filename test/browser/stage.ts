import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe } from "vitest";
import type { Config } from "agentserve";
import { startServer, type Target } from "../harness/server.ts";
import { openTab, type Tab } from "./tab.ts";

/** A browser, a server, and pages of two other origins. */
export interface Stage {
  readonly target: Target;
  /** The server's own origin. */
  readonly server: string;
  /** The origin that the server's config is told. */
  readonly friend: string;
  /** The origin that it is not told. */
  readonly stranger: string;
  /** The requests that reached the server in this test; a preflight is an OPTIONS. */
  readonly arrived: IncomingMessage[];
  /** Their methods. */
  methods(): string[];
  /** A page in a profile of its own: no cookies, no remembered preflights. */
  visit(url: string): Promise<Tab>;
}

/** Runs a suite in Chromium against either host. */
export function describeStage(
  title: string,
  toConfig: (friend: string) => Config,
  suite: (stage: Stage) => void,
): void {
  for (const target of ["dev", "start"] as const) {
    describe(`${title} (${target})`, () => {
      const closing: (() => unknown)[] = [];
      const stage = { target, arrived: [] } as unknown as { -readonly [K in keyof Stage]: Stage[K] };

      beforeAll(async () => {
        const pages = [await servePages(), await servePages()] as const;
        const server = await startServer(target, { config: toConfig(pages[0].origin) });
        const { origin, port } = new URL((await server.send("/doc", {})).url);
        // The only look at preflights: neither a page nor a route ever sees one.
        const hear = (message: unknown): void => {
          const { request } = message as { request: IncomingMessage };
          const isAsked = request.url !== "/favicon.ico"; // the browser's own idea, not the page's
          if (isAsked && request.socket.localPort === Number(port)) stage.arrived.push(request);
        };
        subscribe("http.server.request.start", hear);
        closing.push(
          () => unsubscribe("http.server.request.start", hear),
          server.close,
          pages[0].close,
          pages[1].close,
        );
        stage.methods = () => stage.arrived.map(({ method }) => method!);
        Object.assign(stage, { server: origin, friend: pages[0].origin, stranger: pages[1].origin });
        stage.visit = openTab;
      });
      beforeEach(() => void (stage.arrived.length = 0));
      afterAll(() => Promise.all(closing.toReversed().map((close) => close())));
      suite(stage);
    });
  }
}

/** An origin of its own, with an empty page under every path; the one under /sandboxed is told to forget its origin. */
async function servePages(): Promise<{ origin: string; close(): void }> {
  const server = createServer((req, res) => {
    if (req.url === "/sandboxed") res.setHeader("content-security-policy", "sandbox allow-scripts");
    res.setHeader("content-type", "text/html").end("<title>a page</title>");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
