import { spawn } from "node:child_process";
import { defineConfig, type Plugin } from "vite";

/** Starts `agentserve dev` together with the server of Vite. Both end together. */
const agentserve: Plugin = {
  name: "agentserve",
  apply: "serve",
  configureServer() {
    if (process.env.API_STARTED) return; // Vite was restarted, because this file has changed
    process.env.API_STARTED = "yes";
    const child = spawn(process.execPath, ["node_modules/agentserve/bin/agentserve.mjs", "dev"], { stdio: "inherit" });
    child.on("exit", (code) => process.exit(code ?? 1));
    process.on("exit", () => child.kill());
  },
};

const api = { target: "http://127.0.0.1:3141" };

export default defineConfig({
  root: "web",
  base: "/desk/",
  plugins: [agentserve],
  server: { proxy: { "/agents": api, "/approvals": api, "/sign-in": api } },
  build: { rolldownOptions: { checks: { moduleLevelDirective: false } } }, // "use client" is for servers of React
});
