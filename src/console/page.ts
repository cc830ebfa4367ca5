import { Page } from "../http/envelope.ts";
import { icon, toPageHeaders } from "../http/page.ts";
import { namesHtml, type ConsoleFiles } from "./assets.ts";

/**
 * Returns the page of the console. It has no data: its script asks for them. `base` begins every link to the server.
 * Links are relative: a proxy may remove a prefix that the server does not know. Rejects with 404 if the files of the
 * page are missing.
 */
export async function toConsolePage(files: ConsoleFiles, base: string, more: PageHeaders = {}): Promise<Page> {
  const versions = await files.versions();
  const link = (name: keyof typeof versions): string => `${base}console/assets/${name}?v=${versions[name]}`;
  const text = `<!doctype html>
<html lang="en" data-base="${base}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>agentserve</title>
<link rel="icon" href="${icon}">
<link rel="stylesheet" href="${link("console.css")}">
<script type="module" src="${link("console.js")}"></script>
</head>
<body>
<div id="console"></div>
<noscript>The console needs JavaScript. The <a href="${base}doc">OpenAPI document</a> does not.</noscript>
</body>
</html>
`;
  return new Page(text, { ...headers, ...more });
}

type PageHeaders = Readonly<Record<string, string>>;
const headers: PageHeaders = toPageHeaders("text/html", {
  "script-src": "'self'",
  "style-src": "'self'",
  "img-src": "'self' data: blob:",
  "connect-src": "'self'",
});

/**
 * Returns the page of the console for a browser that asks for `GET /`. Undefined for other clients, and if the files of the
 * page are missing.
 */
export async function toConsoleHome(files: ConsoleFiles, request: Request, base: string): Promise<Page | undefined> {
  if (!namesHtml(request.headers.get("accept"))) return undefined;
  return toConsolePage(files, base, { vary: "accept" }).catch(() => undefined);
}

/** Returns the start of the links on `/console`. The same page is served at `/console/`. */
export const toBase = ({ url }: Request): string => (new URL(url).pathname.endsWith("/") ? "../" : "");
