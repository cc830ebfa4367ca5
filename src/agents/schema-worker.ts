import { constants, setPriority } from "node:os";
import { parentPort } from "node:worker_threads";
import { dereference, Validator, type Schema } from "@cfworker/json-schema";
import { metaSchema } from "./meta-schema.ts";
import type { Checked, Task } from "./schema-checker.ts";

// On Linux this is the priority of the thread alone: whatever a schema does, the server's own thread comes first.
if (process.platform === "linux") setPriority(0, constants.priority.PRIORITY_BELOW_NORMAL);

const meta = new Validator(metaSchema as Schema, "2020-12");

parentPort!.on("message", (task: Task) => parentPort!.postMessage(check(task)));
parentPort!.postMessage("ready");

/** Whether the schema is one, and whether the value fits it. */
function check({ schema: text, value }: Task): Checked {
  try {
    const schema = JSON.parse(text) as Schema;
    const wrong = meta.validate(schema);
    if (!wrong.valid) return { problem: explain(wrong.errors) };
    const known = dereference(schema);
    const problem = findWrongRef(known);
    if (problem !== undefined) return { problem };
    const root = rootOf(schema, known);
    if (root !== "object" && root !== "array") return { problem: "the root must be an object or an array" };
    if (value === undefined) return { root };
    const { valid, errors } = new Validator(schema, "2020-12").validate(JSON.parse(value));
    return valid ? { root } : { root, mismatch: explain(errors) };
  } catch (error) {
    return { problem: error instanceof RangeError ? "it refers to itself without end" : "it cannot be evaluated" };
  }
}

/** The innermost error says most. */
function explain(errors: { instanceLocation: string; error: string }[]): string {
  const last = errors.at(-1);
  const place = last?.instanceLocation.slice(1) || "/";
  return `${place}: ${last?.error}`.slice(0, 500);
}

/** A `$ref` that leads out of the schema, or to nothing. */
function findWrongRef(known: Known): string | undefined {
  for (const part of Object.values(known)) {
    if (typeof part !== "object" || part.$ref === undefined) continue;
    const ref = `$ref ${part.$ref.slice(0, 100)}`;
    if (!part.$ref.startsWith("#")) return `${ref} leads out of the schema`;
    if (!(targetOf(part) in known)) return `${ref} points at nothing`;
  }
  return undefined;
}

/** The type of the root, through a few references. */
function rootOf(schema: Schema, known: Known): unknown {
  let at: Schema | boolean | undefined = schema;
  for (let hops = 0; hops < 32 && typeof at === "object" && at.$ref !== undefined; hops++) at = known[targetOf(at)];
  return typeof at === "object" ? at.type : undefined;
}

type Known = ReturnType<typeof dereference>;
/** Where a `$ref` points, as `dereference` has noted it there. */
const targetOf = (schema: Schema): string => String(schema["__absolute_ref__"] ?? schema.$ref);
