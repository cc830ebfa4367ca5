import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { defineWorkflow, type Config } from "agentserve";
import { openSocket, startTestServer } from "../harness/server.ts";
import { startNginx } from "../hosts/nginx/start-nginx.ts";
import { openPage } from "./console-page.ts";

const hello = defineWorkflow({ id: "hello" }).andThen({ id: "greet", execute: () => "Hello" });

describe("behind a proxy, in Chromium", () => {
  it("calls the operations of /ui under the prefix that the proxy removes, without a header from it", async () => {
    const { url } = await serve({});
    await expectCalls(`${await proxy(url)}/ai`);
  });

  it("calls the operations of /ui under the base path", async () => {
    const { url } = await serve({ server: { basePath: "/api/ai" } });
    await expectCalls(url);
  });

  it("calls the operations of /ui under the base path and the prefix of a proxy", async () => {
    const { url } = await serve({ server: { basePath: "/v1" } });
    await expectCalls(`${await proxy(new URL(url).origin)}/ai/v1`);
  });

  it("leads from the landing page to /ui and back, also at a base path without a slash at its end", async () => {
    const { url } = await serve({ server: { basePath: "/api/ai" } });
    const { page } = await openPage(url);
    await page.getByRole("link", { name: "Try it out" }).click();
    await page.waitForURL(`${url}/ui`);
    await page.getByRole("link", { name: "Overview" }).click();
    await page.waitForURL(`${url}/`);
  });

  it("serves /ui, the landing page and sockets behind nginx, configured as documented", async () => {
    const { url } = await serve({ server: { trustedProxies: ["loopback"] } });
    const base = `${await startNginx("location", [Number(new URL(url).port)])}/ai`;
    await expectCalls(base);
    const { page } = await openPage(`${base}/`);
    expect(await page.locator("#workflow-hello pre").first().textContent()).toContain(
      `curl ${base}/workflows/hello/execute`,
    );
    expect(await (await fetch(`${base}/doc`)).json()).toMatchObject({ servers: [{ url: "/ai" }] });
    const socket = await openSocket(`${base.replace("http", "ws")}/ws`);
    expect(await socket.next()).toMatchObject({ type: "CONNECTION_TEST" });
    socket.close();
  });

  /** Runs the workflow from /ui, by hand, and expects the request and its answer. */
  async function expectCalls(base: string): Promise<void> {
    const { page } = await openPage(`${base}/ui`);
    const operation = page.locator("#operations-Your_workflows-execute-workflow-hello");
    await operation.locator(".opblock-summary-control").click();
    const asked = page.waitForRequest((one) => one.method() === "POST");
    await operation.getByRole("button", { name: "Execute", exact: true }).click();
    const sent = await asked;
    expect(sent.url()).toBe(`${base}/workflows/hello/execute`);
    expect(await (await sent.response())!.json()).toMatchObject({ success: true, data: { result: "Hello" } });
  }
});

const serve = (config: Config): Promise<{ url: string }> =>
  startTestServer("start", { config: { workflows: [hello], ...config } });

/** A proxy that serves the target under `/ai`, and tells it nothing about that. */
async function proxy(target: string): Promise<string> {
  const server = createServer((req, res) => {
    const [, path] = /^\/ai(\/.*)$/.exec(req.url!) ?? [];
    if (path === undefined) return void res.writeHead(404).end("outside of the prefix");
    const { method, headers } = req;
    const passed = request(new URL(path, target), { method, headers }, (answer) => {
      res.writeHead(answer.statusCode!, answer.rawHeaders);
      answer.pipe(res);
    });
    req.pipe(passed);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
