import { setPriority } from "node:os";
import { Script } from "node:vm";
import { dereference, Validator, type Schema } from "@cfworker/json-schema";
import { attempt } from "../../core/attempt.ts";
import { metaSchema } from "./meta-schema.ts";
import type { CheckResult, CheckTask } from "./schema-checker.ts";

// A lower priority than the server's, but not the lowest: on a busy machine, a harmless check needs CPU time as well.
attempt(() => setPriority(4)); // not allowed where the process is nicer already

const meta = new Validator(metaSchema as Schema, "2020-12");

process.on("message", (task: CheckTask) => process.send!(checkWithin(task)));
process.send!({ ready: true });

/** Checks within a limit of CPU time. Wall-clock time would fail a harmless schema on a busy machine. */
function checkWithin(task: CheckTask): CheckResult {
  const deadline = performance.now() + task.wallMs;
  // A `vm` timeout counts wall-clock time. A try that had too little CPU time is repeated with a longer one.
  for (let timeout = task.ms; ;) {
    const began = performance.now();
    const since = process.cpuUsage();
    try {
      return run(() => check(task), timeout);
    } catch (error) {
      if ((error as { code?: string }).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") return { problem: toProblem(error) };
      const { user, system } = process.cpuUsage(since);
      const used = (user + system) / 1_000;
      if (used >= task.ms) return { unfinished: "slow" };
      const now = performance.now();
      if (now >= deadline) return { unfinished: "busy" };
      // Enough for the whole limit at the same share of CPU time, and half as much again.
      timeout = Math.ceil(Math.min((1.5 * task.ms * (now - began)) / Math.max(used, 1), deadline - now));
    }
  }
}

const script = new Script("schemaCheck()");
/** Runs a function with a time limit. Only a `vm` timeout can interrupt a regular expression. */
function run<T>(work: () => T, timeout: number): T {
  Object.assign(globalThis, { schemaCheck: work });
  return script.runInThisContext({ timeout }) as T;
}

const toProblem = (error: unknown): string =>
  error instanceof RangeError ? "infinite recursion" : "evaluation failed";

/** Checks the schema, and the value against it. */
function check({ schema: text, value }: CheckTask): CheckResult {
  const schema = JSON.parse(text) as Schema;
  const wrong = meta.validate(schema);
  if (!wrong.valid) return { problem: explain(wrong.errors) };
  const known = dereference(schema);
  const problem = findWrongRef(known);
  if (problem !== undefined) return { problem };
  const root = rootOf(schema, known);
  if (root !== "object" && root !== "array") return { problem: "the root must be an object or an array" };
  return value === undefined ? { root } : { root, mismatch: findMismatch(schema, JSON.parse(value)) };
}

function findMismatch(schema: Schema, value: unknown): string | undefined {
  try {
    const { valid, errors } = new Validator(schema, "2020-12").validate(value);
    return valid ? undefined : explain(errors);
  } catch (error) {
    if (error instanceof URIError) return "a key is not valid Unicode";
    throw error;
  }
}

/** Formats the innermost error, which has most of the details. */
function explain(errors: { instanceLocation: string; error: string }[]): string {
  const last = errors.at(-1);
  const place = last?.instanceLocation.slice(1) || "/";
  return `${place}: ${last?.error}`.slice(0, 500);
}

/** Finds a reference outside the schema or without a target, and a keyword that the validator does not support. */
function findWrongRef(known: SchemaIndex): string | undefined {
  for (const part of Object.values(known)) {
    if (typeof part !== "object") continue;
    const other = ["$dynamicRef", "$recursiveRef"].find((name) => Object.hasOwn(part, name));
    if (other) return `${other} is not supported`;
    if (part.$ref === undefined) continue;
    const ref = `$ref ${part.$ref.slice(0, 100)}`;
    if (!part.$ref.startsWith("#")) return `${ref} points outside the schema`;
    if (!(targetOf(part) in known)) return `${ref} has no target`;
  }
  return undefined;
}

/** Returns the type of the root. Follows up to 32 references. */
function rootOf(schema: Schema, known: SchemaIndex): unknown {
  let at: Schema | boolean | undefined = schema;
  for (let hops = 0; hops < 32 && typeof at === "object" && at.$ref !== undefined; hops++) at = known[targetOf(at)];
  return typeof at === "object" ? at.type : undefined;
}

type SchemaIndex = ReturnType<typeof dereference>;
/** Returns the target of a `$ref`, as recorded by `dereference`. */
const targetOf = (schema: Schema): string => String(schema["__absolute_ref__"] ?? schema.$ref);
