import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { describe, expect, it } from "vitest";
import { openConsole } from "../console/world.ts";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { eventually } from "../harness/waiting.ts";
import { openChat } from "./console-chat-tab.ts";
import { expectNoProblems, openPage } from "./console-page.ts";

describe("npx agentserve init, then npx agentserve dev --open", () => {
  it("leads a new user from the link to a run, its approval and a chat, without an error", async () => {
    const tab = await openChat(await openDev(await init()));
    const { page } = tab;
    await page.getByText("Nothing waits for a person").waitFor();
    expect(page.url()).not.toContain("t="); // the token has left the address
    await page.getByRole("link", { name: "Workflows", exact: true }).click();
    await page.getByRole("link", { name: "Expense approval" }).click();
    await page.getByLabel("amount").fill("900");
    await page.getByLabel("reason").fill("a trip");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByText("waits for a person").first().waitFor();
    await page.getByRole("link", { name: "Inbox 1" }).click();
    const entry = page.getByRole("article", { name: "Approve 900 for a trip?" });
    await entry.getByLabel("approved").click();
    await entry.getByRole("button", { name: "Send answer" }).click();
    await page.getByRole("link", { name: "Show the run" }).click();
    await page.locator(".status[data-status=completed]").first().waitFor();
    await page.getByRole("link", { name: "State" }).click();
    await page.getByRole("group", { name: "Result" }).getByText("900").waitFor();
    await tab.begin("assistant");
    await tab.say("What is the weather in Berlin?");
    await tab.sees("blue");
    await tab.isReady();
    expectNoProblems(tab);
  });

  it("serves all views of the console in 150 KB, from its own host", async () => {
    const opened = await openPage(await openDev(await init()));
    const { page } = opened;
    for (const name of ["Inbox", "Runs", "Agents", "Workflows", "Schedules", "Log", "Traces", "Routes"]) {
      await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { name, level: 1 }).waitFor();
    }
    const files = await page.evaluate(() =>
      [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
        .map((entry) => entry as PerformanceResourceTiming)
        .filter(({ initiatorType }) => ["navigation", "script", "link", "css"].includes(initiatorType))
        .map(({ name, transferSize }) => ({ name: new URL(name).pathname, transferSize })),
    );
    const assets = ["/console", "/console/assets/console.css", "/console/assets/console.js"];
    expect(files.map(({ name }) => name).toSorted()).toEqual(assets);
    const total = files.reduce((sum, { transferSize }) => sum + transferSize, 0);
    console.log(`The console: ${(total / 1_000).toFixed(1)} KB received for all views`);
    expect(total).toBeGreaterThan(10_000);
    expect(total).toBeLessThan(150_000);
    expectNoProblems(opened);
  });

  it.each([
    ["cors closed", `server: { cors: { origin: [] } }`],
    ["cors left to the host", `server: { cors: false }`],
    [
      "defaultPrivate",
      `auth: jwtAuth({ secret: "x".repeat(32), defaultPrivate: true, webSockets: true, ownership: true })`,
    ],
  ])("opens the console at GET /, runs a workflow and shows its log with %s", async (_, options) => {
    const cwd = await init();
    const config = `import { defineConfig, jwtAuth } from "agentserve";\nexport default defineConfig({ ${options} });\nvoid jwtAuth;\n`;
    writeFileSync(join(cwd, "agents.config.ts"), config);
    const opened = await openPage((await openDev(cwd)).replace("/console#", "/#")); // also if it is private
    const { page } = opened;
    await page.getByRole("link", { name: "Workflows", exact: true }).click();
    await page.getByRole("link", { name: "Expense approval" }).click();
    await page.getByLabel("amount").fill("5");
    await page.getByLabel("reason").fill("a pen");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.locator(".status[data-status=completed]").first().waitFor();
    await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Log" }).click(); // a WebSocket
    await page.getByText("Execution completed").first().waitFor();
    expectNoProblems(opened);
  });

  it("paints the console before any answer of the API", async () => {
    const { url } = await openConsole();
    const { page } = await openPage(`${url}/doc`);
    await page.route("**", (route) => (route.request().resourceType() === "fetch" ? undefined : route.continue()));
    await page.goto(`${url}/console`);
    await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
  });
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
