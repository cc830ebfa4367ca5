import { badRequest, ServeError } from "../core/error.ts";
import { isDeeper } from "../core/json.ts";

export interface BodyLimits {
  readonly bodyBytes: number;
  readonly jsonDepth: number;
}

/** The JSON body; an empty one counts as `{}`. Its size is bounded by whoever made the request: listener or `fetch`. */
export async function readJson(request: Request, { jsonDepth }: BodyLimits): Promise<unknown> {
  const type = request.headers.get("content-type");
  const text = await request.text();
  if (text === "") return {};
  // A body without a type, too: browsers send it from any page, and do not ask us first.
  if (type !== "application/json" && !jsonType.test(type ?? "")) {
    throw new ServeError(415, "Content-Type must be application/json");
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw badRequest("Invalid JSON body", cause);
  }
  if (mayBeDeeper(text, jsonDepth) && isDeeper(value, jsonDepth)) {
    throw badRequest(`Invalid JSON body: nested deeper than ${jsonDepth} levels`);
  }
  return value;
}

const jsonType = /^application\/([\w.-]+\+)?json\s*(;|$)/i;

/** Nothing nests deeper than it has opening brackets, and few bodies have that many: no walk for them. */
function mayBeDeeper(text: string, depth: number): boolean {
  let count = 0;
  for (const bracket of ["{", "["]) {
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1)) {
      if (++count > depth) return true;
    }
  }
  return false;
}
