import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { connect, createServer as createPort, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Browser, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { defineWorkflow, type Config } from "agentserve";
import { toBlocks } from "../docs/examples/blocks.ts";
import { openSocket, startServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";
import { findChromium } from "./chromium.ts";

const hello = defineWorkflow({ id: "hello" }).andThen({ id: "greet", execute: () => "Hello" });

describe.skipIf(!findChromium())("behind a proxy, in Chromium", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: findChromium()!, args: ["--no-sandbox", "--no-proxy-server"] });
  });
  afterAll(() => browser?.close());

  it("calls the operations of /ui under the prefix that the proxy removes, without a header from it", async () => {
    const { url } = await serve({});
    await expectCalls(`${await proxy(url)}/ai`);
  });

  it("calls them under the base path", async () => {
    const { url } = await serve({ server: { basePath: "/api/ai" } });
    await expectCalls(url);
  });

  it("calls them under both", async () => {
    const { url } = await serve({ server: { basePath: "/v1" } });
    await expectCalls(`${await proxy(new URL(url).origin)}/ai/v1`);
  });

  it("leads from the landing page to /ui and back, also at a base path without a slash at its end", async () => {
    const { url } = await serve({ server: { basePath: "/api/ai" } });
    const page = await open(url);
    await page.getByRole("link", { name: "Try it out" }).click();
    await page.waitForURL(`${url}/ui`);
    await page.getByRole("link", { name: "Overview" }).click();
    await page.waitForURL(`${url}/`);
  });

  it.skipIf(!hasNginx())("works behind nginx, configured as documented (skipped without nginx)", async () => {
    const { url } = await serve({ server: { trustedProxies: ["loopback"] } });
    const base = `${await startNginx(new URL(url).host)}/ai`;
    await expectCalls(base);
    const page = await open(`${base}/`);
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
    const page = await open(`${base}/ui`);
    const operation = page.locator("#operations-Your_workflows-execute-workflow-hello");
    await operation.locator(".opblock-summary-control").click();
    const asked = page.waitForRequest((one) => one.method() === "POST");
    await operation.getByRole("button", { name: "Execute", exact: true }).click();
    const sent = await asked;
    expect(sent.url()).toBe(`${base}/workflows/hello/execute`);
    expect(await (await sent.response())!.json()).toMatchObject({ success: true, data: { result: "Hello" } });
  }

  async function open(url: string): Promise<Page> {
    const page = await browser.newPage();
    onTestFinished(() => page.close());
    await page.goto(url);
    return page;
  }
});

async function serve(config: Config): Promise<{ url: string }> {
  const server = await startServer("start", { config: { workflows: [hello], ...config } });
  onTestFinished(() => server.close());
  return server;
}

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

function hasNginx(): boolean {
  try {
    return execFileSync("nginx", ["-v"], { stdio: "ignore" }) !== undefined;
  } catch {
    return false;
  }
}

/** Runs nginx with the example of docs/deployment.md. Returns its URL. */
async function startNginx(target: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-nginx-"));
  const [block] = toBlocks("docs/deployment.md", readFileSync("docs/deployment.md", "utf8")).filter(
    ({ language, text }) => language === "nginx" && text.startsWith("location "),
  );
  const port = await findPort();
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  const config = `daemon off; pid ${folder}/pid; error_log stderr;
events {}
http { access_log off; ${paths.join(" ")}
server { listen 127.0.0.1:${port}; ${block!.text.replace("127.0.0.1:3141", target)} } }\n`;
  writeFileSync(join(folder, "nginx.conf"), config);
  const nginx = spawn("nginx", ["-c", join(folder, "nginx.conf"), "-p", folder], { stdio: "ignore" });
  onTestFinished(async () => {
    const ended = once(nginx, "close");
    nginx.kill("SIGTERM");
    await ended;
    rmSync(folder, { recursive: true });
  });
  await eventually(async () => {
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect").finally(() => socket.destroy());
  });
  return `http://127.0.0.1:${port}`;
}

async function findPort(): Promise<number> {
  const probe = createPort().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}
