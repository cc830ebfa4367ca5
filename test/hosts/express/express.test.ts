import { createProgram, describeHost } from "../embedding.ts";
import { installHost } from "../install-host.ts";

const host = installHost("express", { agentserve: true });

describeHost("Express", {
  basePath: "/api/ai",
  prepare: () => createProgram(host, ["express.ts"], (text) => text.replace("./ai.ts", "./ai.mjs")),
  command: [process.execPath, "express.ts"],
});
