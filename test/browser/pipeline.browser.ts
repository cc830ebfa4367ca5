import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { openProfile } from "./profile.ts";

describe("the page of the template pipeline", () => {
  it("publishes a document by the page of the template pipeline, over a restart", async () => {
    const folder = createProject({});
    expect((await agentserve(["init", "--template", "pipeline"], { cwd: folder }).ended).code).toBe(0);
    const start = async (port = "0") => {
      const child = agentserve(["start", "--port", port, "--data", join(folder, "data.db")], { cwd: folder });
      const [url] = await child.waitFor(/http:\/\/[\w.]+:\d+/);
      return { child, url };
    };
    const first = await start();
    const page = await (await openProfile()).newPage();
    const problems: string[] = [];
    page.on("pageerror", ({ message }) => problems.push(message));
    await page.goto(`${first.url}/pipeline`);
    await page.fill("textarea", "One page.\n\nAnother page.\n\nThe last page.");
    await page.click("#start button");
    await page.waitForFunction(() => document.getElementById("reason")!.textContent === "Publish 3 pages?");
    expect(await page.$eval("#pages", (bar) => (bar as HTMLProgressElement).value)).toBe(3);
    if (process.env["SCREENSHOTS"]) await page.screenshot({ path: join(process.env["SCREENSHOTS"], "pipeline.png") });

    first.child.process.kill("SIGKILL");
    await first.child.ended;
    const second = await start(new URL(first.url!).port);
    await page.click('#review button[value="yes"]');
    await page.waitForFunction(() => document.getElementById("reason")!.textContent.startsWith("Sleeping until "));
    await page.click("#skip");
    await page.waitForFunction(() => document.getElementById("status")!.textContent === "completed");
    expect(await page.textContent("#result")).toMatch(/^# Notes\n/);
    expect(problems).toEqual([]);
    second.child.process.kill("SIGTERM");
    await second.child.ended;
  });
});
