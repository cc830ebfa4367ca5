import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { delimiter, join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { patienceMs } from "../harness/patience.ts";
import { createProject } from "../harness/project.ts";
import { eventually } from "../harness/waiting.ts";
import { launchOnce } from "./stage.ts";

describe("npx agentserve init, then npx agentserve dev --open", () => {
  let browser: Browser;
  beforeAll(async () => void (browser = await launchOnce()));

  it("opens the console, signed in: at most 150 KB, nothing from another host, no error", async () => {
    const link = await openDev(await init());
    const { page, faults, received } = await visit(link);
    await page.getByRole("heading", { name: "Inbox" }).waitFor();
    for (const name of ["Runs", "Agents", "Workflows", "Schedules", "Log", "Traces", "Routes"]) {
      await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { name, level: 1 }).waitFor();
    }
    const sizes = received.filter(({ type }) => !type.startsWith("application/json") && type !== "text/event-stream");
    expect(sizes.map(({ type }) => type).toSorted()).toEqual(["text/css", "text/html", "text/javascript"]);
    const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
    console.log(`The console: ${(total / 1_000).toFixed(1)} KB received for all views`);
    expect(total).toBeLessThan(150_000);
    expect(new URL(page.url()).hash).not.toContain("t="); // the token has left the address
    expect(faults).toEqual([]);
  });

  it("is the first view of GET / for a browser, and shows what is served", async () => {
    const link = await openDev(await init());
    const { page, faults } = await visit(link.replace("/console#", "/#"));
    await page.getByRole("link", { name: "Workflows", exact: true }).click();
    await page.getByRole("link", { name: "Expense approval" }).waitFor();
    expect(faults).toEqual([]);
  });

  it.each([
    ["cors closed", `server: { cors: { origin: [] } }`],
    ["cors left to the host", `server: { cors: false }`],
    [
      "defaultPrivate",
      `auth: jwtAuth({ secret: "x".repeat(32), defaultPrivate: true, webSockets: true, ownership: true })`,
    ],
  ])("works with %s", async (_, options) => {
    const cwd = await init();
    const config = `import { defineConfig, jwtAuth } from "agentserve";\nexport default defineConfig({ ${options} });\nvoid jwtAuth;\n`;
    writeFileSync(join(cwd, "agents.config.ts"), config);
    const { page, faults } = await visit((await openDev(cwd)).replace("/console#", "/#")); // also if it is private
    await page.getByRole("link", { name: "Workflows", exact: true }).click();
    await page.getByRole("link", { name: "Expense approval" }).click();
    await page.getByLabel("amount").fill("5");
    await page.getByLabel("reason").fill("a pen");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.locator(".status[data-status=completed]").first().waitFor();
    await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Log" }).click(); // a WebSocket
    await page.getByText("Execution completed").first().waitFor();
    expect(faults).toEqual([]);
  });

  it("is painted as soon as a static page of the same size, within a factor of 5", async () => {
    const link = await openDev(await init());
    const own = new URL("/console", link).href;
    const control = await serveControl(own);
    const times: Record<string, number[]> = { own: [], control: [] };
    for (let round = 0; round < 10; round++) {
      for (const [name, url] of Object.entries({ own, control })) times[name]!.push(await firstPaint(url));
    }
    const [mine, other] = [median(times["own"]!), median(times["control"]!)];
    console.log(`First paint: ${mine.toFixed(0)} ms, of a static page of the same size ${other.toFixed(0)} ms`);
    expect(mine / other).toBeLessThan(5);
  });

  /** Makes a project as a new user does, with the packages of this one. */
  async function init(): Promise<string> {
    const folder = createProject({});
    const { code, stderr } = await agentserve(["init", "x"], { cwd: folder }).ended;
    expect([code, stderr]).toEqual([0, ""]);
    return join(folder, "x");
  }

  /** Starts `dev --open`, and returns the address that it opens. */
  async function openDev(cwd: string): Promise<string> {
    const opened = join(cwd, "opened.txt");
    mkdirSync(join(cwd, "bin"));
    const script = join(cwd, "bin/xdg-open");
    writeFileSync(script, `#!/bin/sh\necho "$1" > '${opened}.new' && mv '${opened}.new' '${opened}'\n`);
    chmodSync(script, 0o755);
    const env = { ...process.env, PATH: `${join(cwd, "bin")}${delimiter}${process.env["PATH"]}` };
    agentserve(["dev", "--open", "--port", "0"], { cwd, env });
    return eventually(() => {
      if (!existsSync(opened)) throw new Error("nothing was opened");
      return readFileSync(opened, "utf8").trim();
    });
  }

  async function visit(url: string) {
    const context = await browser.newContext();
    onTestFinished(() => context.close());
    context.setDefaultTimeout(patienceMs);
    const page = await context.newPage();
    const { origin } = new URL(url);
    const faults: string[] = [];
    const received: { type: string; bytes: number }[] = [];
    const network = await context.newCDPSession(page);
    await network.send("Network.enable");
    const types = new Map<string, string>();
    network.on("Network.responseReceived", ({ requestId, response }) => {
      if (!response.url.startsWith("data:")) types.set(requestId, response.mimeType);
    });
    network.on("Network.loadingFinished", ({ requestId, encodedDataLength: bytes }) => {
      const type = types.get(requestId);
      if (type !== undefined) received.push({ type, bytes });
    });
    page.on("request", (request) => {
      const asked = new URL(request.url());
      if (asked.protocol !== "data:" && asked.origin !== origin) faults.push(`asked for ${asked.href}`);
    });
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) faults.push(message.text());
    });
    page.on("pageerror", (error) => void faults.push(String(error)));
    await page.goto(url);
    return { page, faults, received };
  }

  async function firstPaint(url: string): Promise<number> {
    const context = await browser.newContext();
    try {
      const page = await context.newPage();
      await page.goto(url);
      await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0, undefined, {
        timeout: patienceMs,
      });
      return await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]!.startTime);
    } finally {
      await context.close();
    }
  }

  /** A page with a style sheet and a script of the same sizes, which only sets a text. */
  async function serveControl(own: string): Promise<string> {
    const texts = ["console.js", "console.css"].map((name) => readFileSync(resolve("dist/console", name), "utf8"));
    const script = `/*${texts[0]!.replaceAll("*/", "")}*/document.getElementById("console").textContent = "agentserve";`;
    const files: Record<string, [type: string, text: string]> = {
      "/console.js": ["text/javascript", script],
      "/console.css": ["text/css", texts[1]!],
      "/": [
        "text/html",
        (await (await fetch(own)).text()).replaceAll(/(?:console\/assets\/)(console\.\w+)\?v=\w+/g, "$1"),
      ],
    };
    const server = createServer((request, response) => {
      const [type, text] = files[request.url ?? ""] ?? ["text/plain", ""];
      response.writeHead(200, { "content-type": type, "content-encoding": "gzip" }).end(gzipSync(text));
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    onTestFinished(() => void server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  }
});

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
