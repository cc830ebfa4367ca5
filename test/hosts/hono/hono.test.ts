import { createProgram, describeHost } from "../embedding.ts";
import { installHost } from "../install-host.ts";

const host = installHost("hono", { agentserve: true });
const toOwnServer = (text: string): string => text.replace("./ai.ts", "./ai.mjs");

describeHost("Hono, under a path", {
  basePath: "/api/ai",
  prepare: () => createProgram(host, ["hono.ts"], toOwnServer),
  command: [process.execPath, "hono.ts"],
});

describeHost("Hono, at the root", {
  basePath: "",
  prepare: () => createProgram(host, ["hono.ts"], (text) => toOwnServer(text).replace("/api/ai/*", "*")),
  command: [process.execPath, "hono.ts"],
});
