import { join } from "node:path";
import { execute } from "../../harness/packed.ts";
import { createProgram, describeHost } from "../embedding.ts";
import { installHost } from "../install-host.ts";

const host = installHost("nitro", { agentserve: true });
const files = ["nitro.config.ts", "routes/api/ai/[...path].ts", "routes/api/ai/index.ts", "plugins/ai.ts"];

describeHost("Nitro", {
  basePath: "/api/ai",
  prepare() {
    const folder = createProgram(host, files, (text) => text.replace(/(\.\.\/ai)"/, `$1.mjs"`));
    execute(process.execPath, [join(host, "node_modules/nitropack/dist/cli/index.mjs"), "build"], folder);
    return folder;
  },
  command: [process.execPath, ".output/server/index.mjs"],
});
