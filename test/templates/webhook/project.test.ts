import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { toBlocks } from "../../docs/examples/blocks.ts";
import { typeSession } from "../../docs/examples/session.ts";
import { openShell } from "../../docs/examples/shell.ts";
import { createTools } from "../../docs/examples/tools.ts";
import { agentserve } from "../../harness/cli.ts";
import { runHere } from "../../harness/in-process.ts";
import { secret } from "./shop.ts";

describe("the template webhook, where init has written it", () => {
  const tools = createTools();
  afterAll(() => tools.close());

  async function init(): Promise<{ folder: string; suggested: string }> {
    const folder = tools.project({});
    const { code, stdout } = await runHere(["init", "--template", "webhook"], { cwd: folder });
    expect(code).toBe(0);
    return { folder, suggested: /npx agentserve call .*/.exec(stdout)![0] };
  }

  it("the template webhook answers the call that init suggests without secrets, and closes the webhook", async () => {
    const { folder, suggested } = await init();
    const child = agentserve(["dev", "--port", "0"], { cwd: folder, env: tools.env });
    const [url] = await child.waitFor(/http:\/\/[\w.]+:\d+/);
    const called = await openShell(folder, { ...tools.env, AGENTSERVE_URL: url }).type(suggested);
    expect(called.code, called.output).toBe(0);
    expect(called.output).toContain('"amount": 80');
    const response = await fetch(`${url}/webhooks/orders`, { method: "POST", body: "{}" });
    expect([response.status, await response.json()]).toEqual([
      503,
      { success: false, error: "WEBHOOK_SECRET is not set" },
    ]);
    child.process.kill("SIGINT");
    expect((await child.ended).code).toBe(0);
  });

  it("the template webhook refuses to start with JWT_SECRET and without WEBHOOK_SECRET", async () => {
    const { folder } = await init();
    const env = { ...tools.env, JWT_SECRET: secret };
    const { code, stderr } = await agentserve(["start"], { cwd: folder, env }).ended;
    expect([code, stderr]).toEqual([1, expect.stringContaining("WEBHOOK_SECRET is not set")]);
  });

  it("the template webhook does what its README says with start --strict", async () => {
    const { folder } = await init();
    const blocks = toBlocks("README.md", readFileSync(join(folder, "README.md"), "utf8"));
    const before = openShell(folder, tools.env);
    const [secrets] = blocks.filter(({ text }) => text.includes("WEBHOOK_SECRET=$("));
    const set = await before.type(secrets!.text);
    expect(set.code, set.output).toBe(0);
    expect(set.output).toMatch(/^POST +\/webhooks\/orders +public/m);

    const child = agentserve(["start", "--strict", "--port", "0"], { cwd: folder, env: tools.env });
    const [url] = await child.waitFor(/http:\/\/[\w.]+:\d+/);
    const shell = openShell(folder, { ...tools.env, AGENTSERVE_URL: url });
    const sessions = blocks.filter(({ language }) => language === "console");
    expect(sessions).toHaveLength(2);
    for (const { text } of sessions) await typeSession(shell, text, url!);
    const again = sessions[0]!.text.slice(sessions[0]!.text.indexOf("$ curl"));
    await typeSession(shell, again, url!);
    const listed = await shell.type(`npx agentserve runs list --json --token "$GRACE"`);
    expect(listed.output.match(/"executionId": *"order-delivery-1"/g), listed.output).toHaveLength(1);
    const [schedule] = blocks.filter(({ text }) => text.includes("schedules trigger nightly"));
    const triggered = await shell.type(schedule!.text);
    expect(triggered.code, triggered.output).toBe(0);
    expect(triggered.output).toMatch(/^nightly +report +0 3 \* \* \*/m);
    expect(triggered.output).toMatch(/^execution schedule:nightly:manual-[\da-f-]+ started/m);
    expect(triggered.output).toMatch(/schedule:nightly:manual-\S+ +report/);
    child.process.kill("SIGTERM");
    expect((await child.ended).code).toBe(0);
  });
});
