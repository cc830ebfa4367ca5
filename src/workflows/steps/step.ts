import { idRule, isId } from "../../core/id.ts";
import { isSchema, type InputOf, type OutputOf, type Schema } from "../../core/schema.ts";
import type { StepContext } from "../../engine/step-context.ts";
import type { Retry, Step, StepType } from "../../engine/definition.ts";

/** A step that knows its types: what it reads from the workflow around it, and what it makes. */
export interface TypedStep<Data, Input, Resume, Suspend, Output> extends Step {
  /** For the compiler only. */
  readonly "~types"?: ((context: StepContext<Data, Input, Resume, Suspend>) => Output) | undefined;
}
/** A step in a workflow of these types, whatever its output. */
export type StepIn<Data, Input, Resume, Suspend> = TypedStep<Data, Input, Resume, Suspend, unknown>;
export type OutputOfStep<S> = S extends { "~types"?: ((context: never) => infer Output) | undefined } ? Output : never;

/** `T`, which the compiler must find in what the step is made of, not in the place where it is put. */
export type Made<T> = [T][T extends unknown ? 0 : never];

export type MaybeSchema = Schema | undefined;

/** What every kind of step takes. */
export interface StepOptions {
  /** Unique within the workflow, nested steps included. */
  id: string;
  /** @default the id */
  name?: string;
  /** @default "" */
  purpose?: string;
  retry?: Retry;
  /** Milliseconds that one attempt may take. @default server.limits.stepTimeoutMs */
  timeout?: number;
}

/** Schemas of a step that runs code of its own. They are checked at run time and give the code its types. */
export interface StepSchemas<
  In extends MaybeSchema,
  Out extends MaybeSchema,
  Sus extends MaybeSchema,
  Res extends MaybeSchema,
> {
  inputSchema?: In;
  outputSchema?: Out;
  suspendSchema?: Sus;
  resumeSchema?: Res;
}

/** Everything that is called a schema must be one. */
export function checkSchemas(options: object, what: string): void {
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || !/^(input|result|schema|\w+Schema)$/.test(key) || isSchema(value)) continue;
    throw new TypeError(`${what}: ${key} is not a schema of valibot, zod, arktype or another Standard Schema library`);
  }
}

/** The context of a step's code: its own schemas first, then those of the workflow. */
export type ContextWith<Data, Input, Resume, Suspend, In, Sus, Res> = StepContext<
  OutputOf<In, Data>,
  Input,
  OutputOf<Res, Resume>,
  InputOf<Sus, Suspend>
>;

/**
 * Fills in the defaults, and refuses what the types of a JavaScript user do not: an id that could not stand in a URL or a
 * journal, a schema that is none, and the absence of what the step is made of.
 */
export function createStep<const S extends { id: string; name?: string; purpose?: string }>(
  type: StepType,
  options: S,
  needs: { [K in keyof S]?: "function" | "object" },
  run: Step["run"],
): S & Pick<Step, "type" | "name" | "purpose" | "run"> {
  if (!isId(options.id)) throw new TypeError(`${type}: id ${JSON.stringify(options.id)} is not ${idRule}`);
  for (const [key, kind] of Object.entries(needs)) {
    const value = options[key as keyof S];
    if (typeof value !== kind || value === null) throw new TypeError(`${type} ${options.id}: ${key} is missing`);
  }
  checkSchemas(options, `${type} ${options.id}`);
  return Object.freeze({ ...options, run, type, name: options.name ?? options.id, purpose: options.purpose ?? "" });
}
