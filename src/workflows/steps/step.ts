import { idRule, isId } from "../../core/id.ts";
import { isSchema, type InputOf, type OutputOf, type Schema } from "../../core/schema.ts";
import type { StepContext } from "../../engine/step-context.ts";
import type { Retry, Step, StepCodes, StepType } from "../../engine/definition.ts";

/** A step with its types: of the workflow around it, and of its output. */
export interface TypedStep<Data, Input, Resume, Suspend, Output> extends Step {
  /** For the compiler only. */
  readonly "~types"?: ((context: StepContext<Data, Input, Resume, Suspend>) => Output) | undefined;
}
/** A step in a workflow of these types, with any output. */
export type StepIn<Data, Input, Resume, Suspend> = TypedStep<Data, Input, Resume, Suspend, unknown>;
export type OutputOfStep<S> = S extends { "~types"?: ((context: never) => infer Output) | undefined } ? Output : never;

/** `T`, inferred from the options of the step and not from the place where the step is used. */
export type OwnType<T> = [T][T extends unknown ? 0 : never];

export type MaybeSchema = Schema | undefined;

/** The options that every step takes. */
export interface StepOptions {
  /** Unique within the workflow, nested steps included. */
  id: string;
  /** @default the id */
  name?: string;
  /** @default "" */
  purpose?: string;
  retry?: Retry;
  /** The time limit of one attempt, in milliseconds. @default server.limits.stepTimeoutMs */
  timeout?: number;
}

/** The schemas of a step with user code. They are checked at run time and give the code its types. */
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

/** Refuses options that are named like a schema and are not one. */
export function checkSchemas(options: object, what: string): void {
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || !/^(input|result|schema|\w+Schema)$/.test(key) || isSchema(value)) continue;
    throw new TypeError(`${what}: ${key} is not a schema of valibot, zod, arktype or another Standard Schema library`);
  }
}

/** The context of a step's code: typed by the schemas of the step, else by those of the workflow. */
export type ContextWith<Data, Input, Resume, Suspend, In, Sus, Res> = StepContext<
  OutputOf<In, Data>,
  Input,
  OutputOf<Res, Resume>,
  InputOf<Sus, Suspend>
>;

/** A step without its defaults: the options that the user wrote, the user's code by suffix, and the order in which it runs. */
interface StepParts<Options> {
  readonly type: StepType;
  readonly options: Options;
  /** The options that must be there, for users without types. */
  readonly needs: { readonly [K in keyof Options]?: "function" | "object" };
  readonly codes?: StepCodes;
  readonly run: Step["run"];
}

/** Checks the options of a step and fills in the defaults. */
export function createStep<const Options extends { id: string; name?: string; purpose?: string }>({
  type,
  options,
  needs,
  codes = {},
  run,
}: StepParts<Options>): Options & Pick<Step, "type" | "name" | "purpose" | "codes" | "run"> {
  const { id, name = id, purpose = "" } = options;
  if (!isId(id)) throw new TypeError(`${type}: id ${JSON.stringify(id)} is not ${idRule}`);
  for (const [key, kind] of Object.entries(needs)) {
    const value = options[key as keyof Options];
    if (typeof value !== kind || value === null) throw new TypeError(`${type} ${id}: ${key} is missing`);
  }
  checkSchemas(options, `${type} ${id}`);
  return Object.freeze({ ...options, codes, run, type, name, purpose });
}
