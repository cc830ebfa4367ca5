import { Text } from "../../parts/text.tsx";

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

export function isWeb(url: string): boolean {
  const { protocol } = URL.parse(url) ?? {};
  return protocol === "http:" || protocol === "https:";
}
