import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { html, type Html } from "./html.ts";

/** Returns the page around Swagger UI. Its files are served from the same path, so that the same access rules apply. */
export function toUiPage(versions: Readonly<Record<string, string>>): string {
  const link = (file: string): string => `?${new URLSearchParams({ file, v: versions[file] ?? "" }).toString()}`;
  const page: Html = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>Try it out · agentserve</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="${link("swagger-ui.css")}" />
        <link rel="stylesheet" href="${link("page.css")}" />
        <script src="${link("swagger-ui-bundle.js")}" defer></script>
        <script src="${link("page.js")}" defer></script>
      </head>
      <body>
        <p class="back"><a href="./">← Overview</a></p>
        <main id="swagger-ui"></main>
        <noscript
          ><p class="back">
            This page needs JavaScript. The <a href="./">overview</a> and the <a href="doc">OpenAPI document</a> do not.
          </p></noscript
        >
      </body>
    </html> `;
  return page.text;
}

/**
 * The script of the page. It also works at `/ui/`, which serves the same page. Only the browser knows the URL of a server
 * behind a proxy that removes a prefix. So the document, and the operations in it, are called relative to this page.
 */
const uiScript = `"use strict";
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", paint);
paint();
const page = location.href.split(/[?#]/)[0];
const base = new URL(page.endsWith("/") ? ".." : ".", page).href.slice(0, -1);
const servers = [{ url: base }];
const withServers = (update) => (text) => update(JSON.stringify({ ...JSON.parse(text), servers }));
SwaggerUIBundle({
  url: base + "/doc",
  plugins: [{ statePlugins: { spec: { wrapActions: { updateSpec: withServers } } } }],
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  filter: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
});
`;

const uiStyle = `html { background: #ffffff; }
html.dark-mode { background: #1c2022; color-scheme: dark; }
body { margin: 0; font-family: system-ui, sans-serif; }
.back { max-width: 1460px; margin: 0 auto; padding: 1rem 20px 0; box-sizing: border-box; font-size: 0.9rem; }
.back a { color: #0f766e; }
.dark-mode .back a { color: #5cc8bb; }
.swagger-ui .info { margin: 1.5rem 0; }
.swagger-ui .opblock .opblock-summary-description, .swagger-ui .opblock .opblock-summary-path { overflow-wrap: anywhere; }
`;

export const fileNames = ["swagger-ui-bundle.js", "swagger-ui.css", "page.js", "page.css"] as const;
export type FileName = (typeof fileNames)[number];

export interface UiFile {
  readonly text: string;
  readonly type: string;
  /** A hash of the text. */
  readonly version: string;
}

/** Creates a reader for the files of Swagger UI and its page. A file is read on first use and cached. */
export function createUiFiles(): (name: FileName) => Promise<UiFile> {
  const files = new Map<FileName, Promise<UiFile>>();
  return (name) => {
    const kept = files.get(name) ?? read(name);
    files.set(name, kept);
    kept.catch(() => files.delete(name)); // a failed read is not cached
    return kept;
  };
}

async function read(name: FileName): Promise<UiFile> {
  const text = name in own ? own[name as keyof typeof own] : await readFile(find(name), "utf8");
  const version = createHash("sha256").update(text).digest("hex").slice(0, 16);
  return { text, version, type: name.endsWith(".css") ? "text/css" : "text/javascript" };
}

const own = { "page.js": uiScript, "page.css": uiStyle };

/**
 * Returns the path of a file. The build copies the files next to the bundle. From source, they are in the
 * `swagger-ui-dist` package.
 */
function find(name: string): URL | string {
  if (!import.meta.url.endsWith(".ts")) return new URL(`swagger-ui/${name}`, import.meta.url);
  return createRequire(import.meta.url).resolve(`swagger-ui-dist/${name}`);
}
