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

/** The icon of our pages, as a `data:` URL. */
export const icon: string =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='4' fill='%230f766e'/%3E%3Cpath d='M4 5l3 3-3 3m4 0h4' fill='none' stroke='white' stroke-width='1.6' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";
