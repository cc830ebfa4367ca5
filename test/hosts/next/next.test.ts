import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { execute } from "../../harness/packed.ts";
import { createProgram, describeHost } from "../embedding.ts";
import { installHost } from "../install-host.ts";

const host = installHost("next", { agentserve: true });
const next = join(host, "node_modules/next/dist/bin/next");
const files = ["next.config.ts", "app/api/ai/[[...path]]/route.ts", "instrumentation.ts"];

describeHost("Next.js", {
  basePath: "/api/ai",
  prepare() {
    // The folder is inside of this repository: without a root, Next.js would take the package in it.
    const root = `turbopack: { root: ${JSON.stringify(host)} },\n`;
    const folder = createProgram(host, files, (text) =>
      text.replace("/ai-next", "/ai.mjs").replace("serverExternalPackages", `${root}  serverExternalPackages`),
    );
    writeFileSync(join(folder, "tsconfig.json"), `{ "compilerOptions": { "allowJs": true } }\n`);
    execute(process.execPath, [next, "build"], folder);
    return folder;
  },
  command: [process.execPath, next, "start"],
  env: { NEXT_MANUAL_SIG_HANDLE: "true", NEXT_TELEMETRY_DISABLED: "1" },
});
