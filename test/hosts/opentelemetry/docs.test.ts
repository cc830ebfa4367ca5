import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { readBlocks } from "../../docs/examples/blocks.ts";
import { run } from "../../harness/cli.ts";
import { pack, userEnv } from "../../harness/packed.ts";
import manifest from "./package.json" with { type: "json" };
import { startReceiver, type Receiver } from "../otlp-receiver/receiver.ts";

/** The examples of docs/observability.md, in their order: a command, then an installation, a file and a command. */
const examples = readBlocks().filter(
  ({ file, text }) => file === "docs/observability.md" && /OTEL_|@opentelemetry\//.test(text),
);
const [byEnvironment, installation, sdkFile, withSdk] = examples.map(({ text }) => text) as [
  string,
  string,
  string,
  string,
];

const { dependencies: versions } = manifest as { dependencies: Record<string, string> };

const config = `
  import { defineConfig, defineWorkflow } from "agentserve";
  const greet = defineWorkflow({ id: "greet" }).andThen({ id: "say", execute: () => "hello" });
  export default defineConfig({ workflows: [greet], server: { port: 0, limits: { drainNoticeMs: 0 } } });`;

describe("the OpenTelemetry set-up of docs/observability.md, from an empty folder", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "agentserve-opentelemetry-"));
    writeFileSync(join(folder, "package.json"), '{ "name": "my-app", "private": true, "type": "module" }\n');
    writeFileSync(join(folder, "agents.config.ts"), config);
    writeFileSync(join(folder, "otel.mjs"), sdkFile);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const npm = (...args: string[]) =>
    spawnSync("npm", [...args, "--prefer-offline", "--no-audit", "--no-fund"], {
      cwd: folder,
      env: userEnv,
      encoding: "utf8",
    });

  it("installs the OpenTelemetry SDK without a conflict and without a warning about peers", () => {
    const tarball = pack(folder);
    expect(npm("install", tarball)).toMatchObject({ status: 0 });
    expect(installation).toMatch(/^npm install [\w@/ -]+\n$/);
    // With the versions of package.json, so that the test does the same tomorrow.
    const packages = installation.trim().split(" ").slice(2);
    const { status, stderr } = npm("install", ...packages.map((name) => `${name}@${versions[name]}`));
    expect([status, stderr.match(/.*(?:ERESOLVE|peer).*/gi)]).toEqual([0, null]);
    expect(npm("ls").status, "a tree that npm calls valid").toBe(0);
  });

  /** Runs a command of the docs, one execution, and then a signal. */
  async function serve(command: string, receiver: Receiver, signal: NodeJS.Signals): Promise<void> {
    // npx would not pass on a signal that only it gets.
    const shown = command
      .replaceAll("http://127.0.0.1:4318", receiver.url)
      .replace("npx agentserve", "node node_modules/agentserve/bin/agentserve.mjs")
      .replace(/^(?=.*node )/m, "exec env ");
    const child = run("sh", ["-c", shown], { cwd: folder, env: { ...userEnv, PORT: "0" } });
    const [base] = await child.waitFor(/http:\/\/\S+:\d+/);
    const headers = { "content-type": "application/json" };
    const sent = await fetch(`${base}/workflows/greet/execute`, { method: "POST", headers, body: '{"input":{}}' });
    expect(sent.status).toBe(200);
    child.process.kill(signal);
    expect(await child.ended).toMatchObject({ code: 0 });
  }

  const toNames = (receiver: Receiver): string[] =>
    receiver
      .spans()
      .map(({ name }) => name)
      .toSorted();
  const names = ["POST /workflows/:id/execute", "step say", "workflow greet"];

  it.each(["SIGTERM", "SIGINT"] as const)(
    "exports the last spans of the SDK before the process ends (%s)",
    async (signal) => {
      const receiver = await startReceiver();
      onTestFinished(() => void receiver.close());
      await serve(withSdk, receiver, signal);
      expect(toNames(receiver)).toEqual(names);
      expect(receiver.requests[0]!.resource).toMatchObject({
        "service.name": "my-app",
        "telemetry.sdk.name": "opentelemetry",
      });
    },
  );

  it.each(["SIGTERM", "SIGINT"] as const)("exports the last spans without an SDK as well (%s)", async (signal) => {
    const receiver = await startReceiver();
    onTestFinished(() => void receiver.close());
    await serve(byEnvironment, receiver, signal);
    expect(receiver.refusals).toEqual([]);
    expect(toNames(receiver)).toEqual(names);
    expect(receiver.requests[0]!.resource).toMatchObject({ "telemetry.sdk.name": "agentserve" });
  });
});
