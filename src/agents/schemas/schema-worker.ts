import { setPriority } from "node:os";
import { Script } from "node:vm";
import { dereference, Validator, type Schema } from "@cfworker/json-schema";
import { attempt } from "../../core/attempt.ts";
import { metaSchema } from "./meta-schema.ts";
import type { CheckResult, CheckTask } from "./schema-checker.ts";

// Whatever a schema does, the server comes first; but on a busy machine an honest one must have its turn, too.
attempt(() => setPriority(4)); // not allowed where the process is nicer already

const meta = new Validator(metaSchema as Schema, "2020-12");

process.on("message", (task: CheckTask) => process.send!(checkWithin(task)));
process.send!({ ready: true });

/**
 * Checks until the time is over. It is this process's own time that counts: on a busy machine an honest schema may have to
 * wait.
 */
function checkWithin(task: CheckTask): CheckResult {
  const since = process.cpuUsage();
  const used = (): number => (process.cpuUsage(since).user + process.cpuUsage(since).system) / 1_000;
  for (const patience of [1, 2]) {
    try {
      return run(() => check(task), task.ms * patience);
    } catch (error) {
      if ((error as { code?: string }).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") return { problem: toProblem(error) };
      if (used() >= task.ms) return { unfinished: "slow" };
    }
  }
  // An honest one needs a few milliseconds.
  return { unfinished: used() >= task.ms / 5 ? "slow" : "busy" };
}

const script = new Script("schemaCheck()");
/** Of the ways to stop code that runs, this is the one that stops a regular expression. */
function run<T>(work: () => T, timeout: number): T {
  Object.assign(globalThis, { schemaCheck: work });
  return script.runInThisContext({ timeout }) as T;
}

const toProblem = (error: unknown): string =>
  error instanceof RangeError ? "it refers to itself without end" : "it cannot be evaluated";

/** Whether the schema is one, and whether the value fits it. */
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

/** The innermost error says most. */
function explain(errors: { instanceLocation: string; error: string }[]): string {
  const last = errors.at(-1);
  const place = last?.instanceLocation.slice(1) || "/";
  return `${place}: ${last?.error}`.slice(0, 500);
}

/** A reference that leads out of the schema, or to nothing, or that the validator does not follow. */
function findWrongRef(known: SchemaIndex): string | undefined {
  for (const part of Object.values(known)) {
    if (typeof part !== "object") continue;
    const other = ["$dynamicRef", "$recursiveRef"].find((name) => Object.hasOwn(part, name));
    if (other) return `${other} is not supported`;
    if (part.$ref === undefined) continue;
    const ref = `$ref ${part.$ref.slice(0, 100)}`;
    if (!part.$ref.startsWith("#")) return `${ref} leads out of the schema`;
    if (!(targetOf(part) in known)) return `${ref} points at nothing`;
  }
  return undefined;
}

/** The type of the root, through a few references. */
function rootOf(schema: Schema, known: SchemaIndex): unknown {
  let at: Schema | boolean | undefined = schema;
  for (let hops = 0; hops < 32 && typeof at === "object" && at.$ref !== undefined; hops++) at = known[targetOf(at)];
  return typeof at === "object" ? at.type : undefined;
}

type SchemaIndex = ReturnType<typeof dereference>;
/** Where a `$ref` points, as `dereference` has noted it there. */
const targetOf = (schema: Schema): string => String(schema["__absolute_ref__"] ?? schema.$ref);
