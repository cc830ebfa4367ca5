import type { StandardSchemaV1 } from "@standard-schema/spec";
import { cut } from "./cut.ts";

/** A Standard Schema, written with valibot, zod, arktype or any other library that supports the standard. */
export type Schema = StandardSchemaV1;

/** The output type of a schema, or `Otherwise` if there is no schema. */
export type OutputOf<S, Otherwise> = S extends Schema ? StandardSchemaV1.InferOutput<S> : Otherwise;

/** The input type of a schema, or `Otherwise` if there is no schema. */
export type InputOf<S, Otherwise> = S extends Schema ? StandardSchemaV1.InferInput<S> : Otherwise;

export function isSchema(value: unknown): value is Schema {
  // An arktype schema is a function.
  const holdsProperties = (typeof value === "object" && value !== null) || typeof value === "function";
  return holdsProperties && "~standard" in value;
}

/** Returns the output of a schema, or the first problem with its path: `user.name: Invalid type …`. */
export async function validate(schema: Schema, value: unknown): Promise<{ value: unknown } | { problem: string }> {
  const result = await schema["~standard"].validate(value);
  if (!result.issues) return { value: result.value };
  const [issue] = result.issues;
  const path = (issue?.path ?? []).map((part) => String(typeof part === "object" ? part.key : part));
  return { problem: toProblem(path.join("."), issue?.message ?? "invalid") };
}

/** Returns a problem with its place. Both are cut: keys are part of the place, and libraries quote the whole value. */
export function toProblem(place: string, message: string): string {
  return [cut(place), cut(message)].filter(Boolean).join(": ");
}
