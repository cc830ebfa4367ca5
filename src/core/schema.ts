import type { StandardSchemaV1 } from "@standard-schema/spec";

/** A schema that a user wrote with valibot, zod, arktype or anything else that speaks Standard Schema. */
export type Schema = StandardSchemaV1;

/** The type a schema yields, or `Otherwise` where there is no schema. */
export type OutputOf<S, Otherwise> = S extends Schema ? StandardSchemaV1.InferOutput<S> : Otherwise;

/** The type a schema takes, or `Otherwise` where there is no schema. */
export type InputOf<S, Otherwise> = S extends Schema ? StandardSchemaV1.InferInput<S> : Otherwise;

export function isSchema(value: unknown): value is Schema {
  // arktype's schemas are functions.
  const holdsProperties = (typeof value === "object" && value !== null) || typeof value === "function";
  return holdsProperties && "~standard" in value;
}

/** What a schema makes of a value, or what is wrong with it: `user.name: Invalid type …`. */
export async function validate(schema: Schema, value: unknown): Promise<{ value: unknown } | { problem: string }> {
  const result = await schema["~standard"].validate(value);
  if (!result.issues) return { value: result.value };
  const [issue] = result.issues;
  const path = (issue?.path ?? []).map((part) => String(typeof part === "object" ? part.key : part));
  return { problem: [path.join("."), issue?.message ?? "invalid"].filter(Boolean).join(": ") };
}
