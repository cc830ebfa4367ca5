import { readFile } from "node:fs/promises";
import { defineConfig } from "agentserve";

const page = new URL("pages/pipeline.html", import.meta.url);

// Every agent and workflow exported by a file in agents/ or workflows/ is served.
export default defineConfig({
  configureApp(app) {
    // A page that starts the pipeline, shows its progress and asks for the approval.
    app.get("/pipeline", async () => new Response(await readFile(page), { headers: { "content-type": "text/html" } }));
  },
});
