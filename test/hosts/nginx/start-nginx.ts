import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { toBlocks } from "../../docs/examples/blocks.ts";
import { freePort } from "../../harness/free-port.ts";
import { eventually } from "../../harness/waiting.ts";

/**
 * Runs nginx until the end of the test with the example of docs/deployment.md that begins with `directive`, in front of
 * these ports. Returns its URL.
 */
export async function startNginx(directive: "location" | "upstream", ports: readonly number[]): Promise<string> {
  const blocks = toBlocks("docs/deployment.md", readFileSync("docs/deployment.md", "utf8"));
  const { text } = blocks.find((block) => block.language === "nginx" && block.text.startsWith(`${directive} `))!;
  const port = await freePort();
  const listen = `listen 127.0.0.1:${port};`;
  const example = ports.reduce((edited, one, index) => edited.replace(`:${3141 + index}`, `:${one}`), text);
  const servers =
    directive === "location" ? `server { ${listen} ${example} }` : example.replace("server {", `server { ${listen}`);
  const folder = mkdtempSync(join(tmpdir(), "agentserve-nginx-"));
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${name};`);
  const file = join(folder, "nginx.conf");
  writeFileSync(
    file,
    `daemon off; pid nginx.pid; error_log error.log; worker_processes 1;
events {}
http { access_log off; ${paths.join(" ")}
${servers} }\n`,
  );
  const nginx = spawn("nginx", ["-p", folder, "-c", file], { stdio: "ignore" });
  const ended = once(nginx, "close").catch(() => {
    throw new Error("nginx is not installed: apt-get install nginx");
  });
  onTestFinished(async () => {
    nginx.kill("SIGTERM"); // the main process ends its worker
    await ended.catch(() => {});
    rmSync(folder, { recursive: true });
  });
  const listening = eventually(async () => {
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect").finally(() => socket.destroy());
  });
  await Promise.race([listening, ended.then(() => listening)]);
  return `http://127.0.0.1:${port}`;
}
