import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { notFound, ServeError } from "../core/error.ts";
import { Page } from "../http/envelope.ts";
import { toPageHeaders } from "../http/page.ts";

const fileNames = ["console.js", "console.css"] as const;
type FileName = (typeof fileNames)[number];

interface ConsoleFile {
  readonly text: string;
  readonly gzip: Uint8Array<ArrayBuffer>;
  /** A hash of the text. */
  readonly version: string;
}

/** The files of the page. Each is read and compressed once per process. */
export interface ConsoleFiles {
  /** Returns a file, or a 304 for a client that has it. Rejects with 404 if there is no such file. */
  serve(name: string, request: Request, version: string | undefined): Promise<Page>;
  /** Returns the version of each file. Rejects with 404 if the files are missing. */
  versions(): Promise<Readonly<Record<FileName, string>>>;
}

/** Creates a reader of the files. A read that failed is repeated: in a clone, the build makes the files later. */
export function createConsoleFiles(): ConsoleFiles {
  const files = new Map<FileName, Promise<ConsoleFile>>();
  const find = (name: FileName): Promise<ConsoleFile> => {
    const kept = files.get(name) ?? read(name);
    files.set(name, kept);
    kept.catch(() => files.delete(name));
    return kept;
  };
  return {
    async serve(name, { headers: asked }, wanted) {
      if (!isFileName(name)) throw notFound();
      const file = await find(name);
      const isGzip = acceptsGzip(asked.get("accept-encoding"));
      const tag = `"${file.version}${isGzip ? "-gzip" : ""}"`;
      const headers: Record<string, string> = {
        ...toPageHeaders(name.endsWith(".css") ? "text/css" : "text/javascript", {}),
        ...(wanted === file.version && { "cache-control": "public, max-age=31536000, immutable" }),
        vary: "accept-encoding",
        etag: tag,
      };
      if (hasTag(asked.get("if-none-match"), tag)) {
        const { "content-type": _, ...kept } = headers;
        return new Page("", kept, 304);
      }
      return isGzip ? new Page(file.gzip, { ...headers, "content-encoding": "gzip" }) : new Page(file.text, headers);
    },
    async versions() {
      const [script, style] = await Promise.all([find("console.js"), find("console.css")]);
      return { "console.js": script.version, "console.css": style.version };
    },
  };
}

async function read(name: FileName): Promise<ConsoleFile> {
  const text = await readFile(toPlace(name), "utf8").catch((cause: unknown) => {
    throw new ServeError(404, "The files of the console are missing: build them with npx tsdown", { cause });
  });
  const version = createHash("sha256").update(text).digest("hex").slice(0, 16);
  return { text, version, gzip: new Uint8Array(await promisify(gzip)(text, { level: 9 })) };
}

/** The build writes the files next to the bundle. */
const toPlace = (name: FileName): URL =>
  new URL(`${import.meta.url.endsWith(".ts") ? "../../dist/" : ""}console/${name}`, import.meta.url);

const isFileName = (name: string): name is FileName => fileNames.some((one) => one === name);

/** Returns true if an `Accept-Encoding` names gzip, or `*` without it, with a weight above 0. */
function acceptsGzip(header: string | null): boolean {
  const weights = new Map(toItems(header).map((item) => [/^[^\s;]*/.exec(item)![0].toLowerCase(), weightOf(item)]));
  return (weights.get("gzip") ?? weights.get("*") ?? 0) > 0;
}

/** Returns true if an `Accept` names `text/html`. A wildcard does not. */
export const namesHtml = (header: string | null): boolean =>
  toItems(header).some((item) => /^text\/html\s*(;|$)/i.test(item) && weightOf(item) > 0);

const weightOf = (item: string): number => Number(/;\s*q\s*=\s*([\d.]+)/i.exec(item)?.[1] ?? 1);
const hasTag = (header: string | null, tag: string): boolean =>
  toItems(header).some((item) => item === "*" || item.replace(/^W\//, "") === tag);
const toItems = (header: string | null): string[] => (header ?? "").split(",").map((item) => item.trim());
