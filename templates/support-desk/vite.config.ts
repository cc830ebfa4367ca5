import { spawn } from "node:child_process";
import { defineConfig, type Plugin } from "vite";

/** Starts `agentserve dev` together with the server of Vite, and sends the calls of the API to it. Both end together. */
const agentserve: Plugin = {
  name: "agentserve",
  apply: (_config, { command, isPreview }) => command === "serve" && !isPreview,
  async config() {
    process.env.AGENTSERVE_DEV_URL ??= await startDev(); // once: Vite restarts when this file changes
    const api = { target: process.env.AGENTSERVE_DEV_URL };
    return { server: { proxy: { "/agents": api, "/approvals": api, "/sign-in": api } } };
  },
};

/** Starts `agentserve dev`. Resolves to its URL: it takes the next free port if 3141 is in use. */
function startDev(): Promise<string> {
  const env = { ...process.env, ...(process.stdout.isTTY && { FORCE_COLOR: "1" }) };
  const command = ["node_modules/agentserve/bin/agentserve.mjs", "dev"];
  const child = spawn(process.execPath, command, { env, stdio: ["inherit", "pipe", "inherit"] });
  child.on("exit", (code) => process.exit(code ?? 1));
  process.on("exit", () => child.kill());
  return new Promise((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      process.stdout.write(text);
      const [url] = /http:\/\/[\w.]+:\d+/.exec(text) ?? [];
      if (url) resolve(url);
    });
  });
}

export default defineConfig({
  root: "web",
  base: "/desk/",
  plugins: [agentserve],
  build: { rolldownOptions: { checks: { moduleLevelDirective: false } } }, // "use client" is for servers of React
});
