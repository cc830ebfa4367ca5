/** Returns the headers of a page. It may load only the listed sources, and other pages must not embed it in a frame. */
export function toPageHeaders(type: string, sources: Readonly<Record<string, string>>): Record<string, string> {
  const directives = { "default-src": "'none'", ...sources, ...closed };
  return {
    "content-type": `${type}; charset=utf-8`,
    "content-security-policy": Object.entries(directives)
      .map((directive) => directive.join(" "))
      .join("; "),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
  };
}

const closed = { "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'" };
