import { badRequest, clientLeft, ServeError } from "../core/error.ts";
import { isDeeper } from "../core/json.ts";
import { isClientAbort } from "./client-abort.ts";

export interface BodyLimits {
  readonly bodyBytes: number;
  readonly jsonDepth: number;
}

/** Reads the JSON body. An empty body counts as `{}`. Its size is already limited by the listener or by `fetch`. */
export async function readJson(request: Request, { jsonDepth }: BodyLimits): Promise<unknown> {
  const type = request.headers.get("content-type");
  const text = await request.text().catch((error: unknown) => {
    throw isClientAbort(error, request) ? clientLeft() : error;
  });
  if (text === "") return {};
  // Also rejects a body without a type: a browser sends one from any page without a preflight.
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

/** Counts opening brackets: nesting cannot be deeper than that. Few bodies have that many, so most need no walk. */
function mayBeDeeper(text: string, depth: number): boolean {
  let count = 0;
  for (const bracket of ["{", "["]) {
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1)) {
      if (++count > depth) return true;
    }
  }
  return false;
}
