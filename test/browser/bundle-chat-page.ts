import { join } from "node:path";
import { rolldown } from "rolldown";
import { installHost } from "../hosts/install-host.ts";

/** Bundles `chat-page.ts` with the AI SDK of a major version. The newest one is that of this project. */
export async function bundleChatPage(version: string): Promise<string> {
  const input = join(import.meta.dirname, "chat-page.ts");
  const folder = version === "7" ? import.meta.dirname : installHost(`ai-clients/${version}`);
  const bundle = await rolldown({
    input,
    platform: "browser",
    transform: { define: { "process.env.NODE_ENV": `"production"` } },
    logLevel: "silent", // ai 5 lacks an export that the page looks for
    plugins: [
      {
        name: "sdk-of-version",
        resolveId(source, importer) {
          if (importer !== input || source.startsWith(".")) return undefined;
          return this.resolve(source, join(folder, "page.js"), { skipSelf: true });
        },
      },
    ],
  });
  const { output } = await bundle.generate({ format: "esm", codeSplitting: false });
  await bundle.close();
  return output[0].code;
}
