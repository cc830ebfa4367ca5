import { readFile } from "node:fs/promises";
import { basename, extname } from "node:path";
import { ServeError, type CustomApp } from "agentserve";

const types: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };

/** Serves the page at /desk, as `npm run build` has built it. In development, Vite serves it. */
export function addPage(app: CustomApp): void {
  app.get("/desk", () => read("index.html", "no-cache"));
  // The names of these files change with their content.
  app.get("/desk/assets/:file", ({ context }) =>
    read(`assets/${basename(context.params!.file!)}`, "public, max-age=31536000, immutable"),
  );
}

async function read(path: string, cacheControl: string): Promise<Response> {
  const content = await readFile(new URL(`dist/${path}`, import.meta.url)).catch(() => {
    throw new ServeError(404, "The page is not built: npm run build");
  });
  const headers = { "content-type": types[extname(path)] ?? "application/octet-stream", "cache-control": cacheControl };
  return new Response(content, { headers });
}
