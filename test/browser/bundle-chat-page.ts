import { join } from "node:path";
import type { Config } from "agentserve";
import { rolldown } from "rolldown";
import { startTestServer, type TestServer } from "../harness/server.ts";
import { installHost } from "../hosts/install-host.ts";

const bundles = new Map<string, Promise<string>>();

/** Bundles `chat-page.ts` with the AI SDK of a major version, once. The newest one is that of this project. */
export function bundleChatPage(version: string): Promise<string> {
  if (!bundles.has(version)) bundles.set(version, bundle(version));
  return bundles.get(version)!;
}

/** Serves a config, and the chat page of a version at `/page`, until the test is over. */
export async function serveChatPage(version: string, config: Config): Promise<TestServer> {
  const script = await bundleChatPage(version);
  const html = `<!doctype html><title>a chat</title><body><script type="module" src="/page.js"></script>`;
  const answer = (text: string, type: string): Response => new Response(text, { headers: { "content-type": type } });
  const server = await startTestServer("start", {
    config: {
      ...config,
      configureApp(app) {
        app.get("/page", () => answer(html, "text/html"));
        app.get("/page.js", () => answer(script, "text/javascript"));
      },
    },
  });
  return server;
}

async function bundle(version: string): Promise<string> {
  const input = join(import.meta.dirname, "chat-page.ts");
  const folder = version === "7" ? import.meta.dirname : installHost(`ai-clients/${version}`);
  const built = await rolldown({
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
  const { output } = await built.generate({ format: "esm", codeSplitting: false });
  await built.close();
  return output[0].code;
}
