import { useEffect, useState } from "preact/hooks";
import { Text } from "../../../parts/text.tsx";

export interface FileProps {
  readonly mediaType: string;
  readonly url: string;
  readonly filename?: string;
}

/** The types that are shown as a picture. Scripts in an SVG do not run there. */
const pictures = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/i;

/** A file of a message: a picture, or a link with its name. */
export function FileView({ file: { mediaType, url, filename } }: { file: FileProps }) {
  const name = filename || mediaType;
  if (pictures.test(mediaType) && url.startsWith("data:image/"))
    return <img class="picture" src={url} alt={name} title={name} />;
  if (isWeb(url))
    return (
      <p class="file">
        <a href={url} target="_blank" rel="noreferrer noopener">
          <Text value={filename || url} />
        </a>
      </p>
    );
  return <Download name={name} url={url} />;
}

/** A link that saves a file. Its content has no type, so that no browser opens it as a page. */
function Download({ name, url }: { name: string; url: string }) {
  const [link, setLink] = useState<string | undefined>();
  useEffect(() => {
    const bytes = toBytes(url);
    if (!bytes) return;
    const made = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    setLink(made);
    return () => URL.revokeObjectURL(made);
  }, [url]);
  return (
    <p class="file">
      {link === undefined ? (
        <Text value={name} />
      ) : (
        <a href={link} download={name}>
          <Text value={name} />
        </a>
      )}
    </p>
  );
}

/** Reads a `data:` URL with base64. */
function toBytes(url: string): Uint8Array<ArrayBuffer> | undefined {
  const found = /^data:[^,]*;base64,/i.exec(url);
  if (!found) return undefined;
  try {
    return Uint8Array.from(atob(url.slice(found[0].length)), (one) => one.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** A source of an answer: a link, if it is one of the web. */
export function Source({ url, title }: { url?: string; title?: string | undefined }) {
  const link = url !== undefined && isWeb(url) ? url : undefined;
  const text = title || url || "";
  return (
    <p class="source">
      Source:{" "}
      {link === undefined ? (
        <Text value={title && url ? `${title} (${url})` : text} />
      ) : (
        <a href={link} target="_blank" rel="noreferrer noopener">
          <Text value={text} />
        </a>
      )}
    </p>
  );
}

function isWeb(url: string): boolean {
  const { protocol } = URL.parse(url) ?? {};
  return protocol === "http:" || protocol === "https:";
}
