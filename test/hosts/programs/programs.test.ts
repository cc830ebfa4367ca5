import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { toBlocks } from "../../docs/examples/blocks.ts";
import { createFolder } from "../../harness/folders.ts";
import { startTestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";

/** Runs a program that the docs name. Throws with its message if it finds a mistake. */
function check(program: "promtool" | "haproxy", args: string[], input = ""): void {
  const { error, status, stdout, stderr } = spawnSync(program, args, { input, encoding: "utf8" });
  const debian = { promtool: "prometheus", haproxy: "haproxy" }[program];
  if (error) throw new Error(`${program} is not installed: apt-get install ${debian}`);
  expect(status, stdout + stderr).toBe(0);
}

function readBlock(file: string, language: string, content: string): string {
  const blocks = toBlocks(file, readFileSync(file, "utf8"));
  return blocks.find((block) => block.language === language && block.text.includes(content))!.text;
}

it("promtool finds no mistake in GET /metrics", async () => {
  // A label with a backslash.
  const config = { configureApp: (app: any) => void app.get(String.raw`/n/:id(\d+)`, () => 1) };
  const server = await startTestServer("start", { config });
  for (const path of ["/workflows", "/doc", "/n/7", "/nowhere"]) await (await server.send(path, {})).text();
  const text = await eventually(async () => {
    const metrics = await (await server.send("/metrics", {})).text();
    expect(metrics).toContain("event_loop_delay");
    return metrics;
  });
  expect(text).toContain(String.raw`/n/:id(\\d+)`);
  check("promtool", ["check", "metrics"], text);
});

it("promtool accepts the scrape configuration of docs/observability.md", () => {
  const folder = createFolder("programs");
  const yaml = readBlock("docs/observability.md", "yaml", "# prometheus.yml");
  writeFileSync(join(folder, "agentserve.token"), "token");
  writeFileSync(join(folder, "prometheus.yml"), yaml.replace("/etc/prometheus", folder));
  check("promtool", ["check", "config", join(folder, "prometheus.yml")]);
});

it("HAProxy accepts the configuration of docs/scale-out.md", () => {
  const file = join(createFolder("programs"), "haproxy.cfg");
  writeFileSync(file, readBlock("docs/scale-out.md", "haproxy", "backend restate_ports"));
  check("haproxy", ["-c", "-f", file]);
});
