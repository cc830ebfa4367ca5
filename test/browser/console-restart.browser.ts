import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { agentserve, type Child } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { until } from "../harness/waiting.ts";
import { openPage } from "./console-page.ts";

const toWorkflow = (line: string): string => `
import { defineWorkflow } from "agentserve";

export const order = defineWorkflow({ id: "order" })
  .andThen({ id: "prepare", execute: () => ({ street: "Elm" }) })
  .andThen({
    id: "ship",
    execute({ data }) {
      ${line}
    },
  });
`;
const patient = `
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { defineWorkflow } from "agentserve";

export const patient = defineWorkflow({ id: "patient" })
  .andThen({ id: "first", execute: () => "ready" })
  .andThen({
    id: "wait",
    execute: async ({ signal }) => {
      while (!existsSync("go")) await sleep(20, undefined, { signal });
      return "gone";
    },
  })
  .andThen({ id: "last", execute: () => "done" });
`;

describe("a run in the console of agentserve dev", () => {
  it("shows the line of a run that failed, and completes it by Retry once the file is fixed", async () => {
    const folder = createProject({
      "agents.config.ts": `export { default } from "./config.ts";`,
      "config.ts": `import { defineConfig } from "agentserve";\nexport default defineConfig({});`,
      "workflows/order.ts": toWorkflow("throw new Error(`No such street: ${data.street}`);"),
    });
    const { child, url } = await startDev(folder);
    await post(`${url}/workflows/order/execute`, { input: {}, options: { executionId: "order-1" } });
    const { page, faults } = await openPage(`${url}/console#/runs/order/order-1`);
    const detail = page.getByRole("region", { name: "ship" });
    await detail.getByText("No such street: Elm", { exact: true }).waitFor();
    expect(await detail.locator("pre.frame").textContent()).toMatch(/order\.ts:\d+[^]*> +\d+ \| .*throw new Error/);
    await detail.getByRole("group", { name: "Input" }).getByText('"Elm"').waitFor();
    writeFileSync(join(folder, "workflows/order.ts"), toWorkflow("return { sent: data.street };"));
    await child.waitFor(/✓ /);
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByText("completed", { exact: true }).waitFor();
    await detail.getByRole("group", { name: "Output" }).getByText('"Elm"').waitFor();
    expect(faults).toEqual([]);
  });

  it("follows the runs after a save, and never says that the connection is lost", async () => {
    const folder = createProject({
      "agents.config.ts": `import { defineConfig } from "agentserve";\nexport default defineConfig({});`,
      "workflows/order.ts": toWorkflow("return data;"),
    });
    const { child, url } = await startDev(folder);
    const { page, faults } = await openPage(`${url}/console#/runs`);
    await post(`${url}/workflows/order/execute`, { input: {}, options: { executionId: "run-1" } });
    await page.getByRole("row", { name: /run-1.*completed/ }).waitFor();
    await page.evaluate(() => {
      new MutationObserver(() => {
        if (document.body.textContent!.includes("Lost the connection")) Reflect.set(globalThis, "wasLost", true);
      }).observe(document.body, { childList: true, subtree: true });
    });
    const opened = page.waitForResponse(/executions\/stream/);
    writeFileSync(join(folder, "workflows/order.ts"), toWorkflow("return { again: data };"));
    await child.waitFor(/✓ /);
    await opened;
    await post(`${url}/workflows/order/execute`, { input: {}, options: { executionId: "run-2" } });
    await page.getByRole("row", { name: /run-2.*completed/ }).waitFor();
    expect(await page.evaluate(() => Reflect.get(globalThis, "wasLost") as unknown)).toBeUndefined();
    expect(faults).toEqual([]);
  });

  it("follows a run without a reload after SIGKILL and a restart, and shows nothing twice", async () => {
    const folder = createProject({
      "agents.config.ts": `import { defineConfig } from "agentserve";\nexport default defineConfig({});`,
      "workflows/patient.ts": patient,
    });
    const first = await startDev(folder);
    await post(`${first.url}/workflows/patient/execute`, { input: {}, options: { executionId: "run-1" } });
    const { page, faults } = await openPage(`${first.url}/console#/runs/patient/run-1?tab=events`);
    const list = await openPage(`${first.url}/console#/runs`);
    await page.locator(".event").filter({ hasText: "step-start wait" }).waitFor();
    await list.page.getByRole("link", { name: "run-1" }).waitFor();
    for (const one of [page, list.page]) await one.evaluate(() => Reflect.set(globalThis, "mark", "same document"));
    first.child.process.kill("SIGKILL");
    await first.child.ended;
    await page.getByText("Lost the connection").waitFor();
    const second = await startDev(folder, new URL(first.url).port);
    await page.getByText("Lost the connection").waitFor({ state: "detached" });
    writeFileSync(join(folder, "go"), "");
    await page.getByText("completed", { exact: true }).waitFor();
    await page.locator(".event").filter({ hasText: "workflow-result" }).waitFor();
    const texts = await page.locator(".event small:first-child").allTextContents();
    const seqs = texts.filter((text) => text !== "–");
    expect(seqs).toEqual(seqs.map((_, index) => String(index + 1)));
    expect(texts.filter((text) => text === "–")).toHaveLength(1);
    await page.getByRole("link", { name: "Steps" }).click();
    const steps = page.getByRole("treeitem");
    await until(async () => (await steps.count()) === 3, "the three steps");
    await list.page.getByRole("row", { name: /run-1.*completed/ }).waitFor();
    expect(await list.page.locator("a[data-run]").count()).toBe(1);
    for (const one of [page, list.page]) {
      expect(await one.evaluate(() => Reflect.get(globalThis, "mark") as unknown)).toBe("same document");
    }
    expect([...faults, ...list.faults]).toEqual([]);
    second.child.process.kill("SIGTERM");
    await second.child.ended;
  });
});

async function startDev(folder: string, port = "0"): Promise<{ child: Child; url: string }> {
  const child = agentserve(["dev", "--port", port, "--data", join(folder, "data.db")], { cwd: folder });
  const [url] = await child.waitFor(/http:\/\/[\w.]+:\d+/);
  return { child, url };
}
const post = (url: string, body: unknown): Promise<Response> =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", prefer: "respond-async" },
    body: JSON.stringify(body),
  });
