import type * as v from "valibot";
import { cut } from "../../core/cut.ts";
import { badRequest, type ServeError } from "../../core/error.ts";
import { validate } from "../../core/schema.ts";

export const invalid = (detail: string): ServeError => badRequest(`Invalid options: ${detail}`);

export async function checkOptions<S extends v.GenericSchema>(schema: S, options: unknown): Promise<v.InferOutput<S>> {
  const checked = await validate(schema, options);
  if ("problem" in checked) throw invalid(checked.problem);
  return checked.value as v.InferOutput<S>; // the schema has made it
}

/** Returns the id of a workflow or an agent that code names by itself or by its id. */
export function idOf(given: { readonly id: string } | string, what: string): string {
  const id: unknown = typeof given === "string" ? given : given?.id;
  if (typeof id !== "string") throw new TypeError(`runtime: expected ${what} or its id, found ${cut(String(given))}`);
  return id;
}
