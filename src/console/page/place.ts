import { signal } from "@preact/signals";

/** The place of the page: the segments of its fragment, and the query behind them. */
export interface Place {
  readonly segments: readonly string[];
  readonly query: URLSearchParams;
}

export const place = signal<Place>({ segments: [], query: new URLSearchParams() });

/** Follows the fragment of the address. */
export function startPlace(): void {
  addEventListener("hashchange", readPlace);
  readPlace();
}
function readPlace(): void {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const segments = path.split("/").filter(Boolean).map(decode);
  const isOther = segments.join("/") !== place.value.segments.join("/");
  place.value = { segments, query: new URLSearchParams(query) };
  if (isOther) window.scrollTo(0, 0);
}

/** Returns the link to a place. */
export function toLink(segments: readonly string[], query: Readonly<Record<string, string | undefined>> = {}): string {
  const values = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) => (value === undefined || value === "" ? [] : [[name, value]])),
  );
  return `#/${segments.map(encodeURIComponent).join("/")}${values.size > 0 ? `?${values}` : ""}`;
}
export function go(segments: readonly string[], query?: Readonly<Record<string, string | undefined>>): void {
  location.hash = toLink(segments, query);
}
/** Replaces the query of this place, without a new entry in the history of the browser. */
export function setQuery(query: Readonly<Record<string, string | undefined>>): void {
  history.replaceState(null, "", toLink(place.value.segments, query));
  readPlace();
}

export const runLink = (workflowId: string, executionId: string): string => toLink(["runs", workflowId, executionId]);

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
