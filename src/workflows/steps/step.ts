import { cut } from "../../core/cut.ts";
import { idRule, isId } from "../../core/id.ts";
import { isSchema, type InputOf, type OutputOf, type Schema } from "../../core/schema.ts";
import type { StepContext } from "../../engine/definition/step-context.ts";
import type { Retry, Step, StepCodes } from "../../engine/definition/definition.ts";
import type { StepTraits } from "../../engine/definition/step-traits.ts";
import { checkRetry } from "./retry.ts";

/** A step with the types of the workflow around it and of its output. */
export interface TypedStep<Data, Input, Resume, Suspend, Output> extends Step {
  /** Used only by the compiler. */
  readonly "~types"?: ((context: StepContext<Data, Input, Resume, Suspend>) => Output) | undefined;
}
/** A step with any output, for a workflow of these types. */
export type StepIn<Data, Input, Resume, Suspend> = TypedStep<Data, Input, Resume, Suspend, unknown>;
/** The output type of a step. */
export type OutputOfStep<S> = S extends { "~types"?: ((context: never) => infer Output) | undefined } ? Output : never;

/** `T`, inferred from the options of the step and not from the place where the step is used. */
export type OwnType<T> = [T][T extends unknown ? 0 : never];

/** A schema, or undefined if the option is not set. */
export type MaybeSchema = Schema | undefined;

/** The options of every step. */
export interface StepOptions {
  /** The id of the step. It is unique within the workflow, nested steps included. */
  id: string;
  /** The display name. @default the id */
  name?: string;
  /** A description for clients. @default "" */
  purpose?: string;
  /** The retry policy. @default the `retry` of the workflow, or a single attempt */
  retry?: Retry;
  /** The time limit of one attempt, in milliseconds. @default server.limits.stepTimeoutMs */
  timeout?: number;
  /**
   * Keeps the values of the step, and of the steps inside it, out of `GET …/steps`, logs and spans. The state of the
   * execution and the steps that get its output are not affected. @default false
   */
  redact?: boolean;
}

/** The schemas of a step with user code. They validate values at run time and give the code its types. */
export interface StepSchemas<
  In extends MaybeSchema,
  Out extends MaybeSchema,
  Sus extends MaybeSchema,
  Res extends MaybeSchema,
> {
  /** The schema of `data`. */
  inputSchema?: In;
  /** The schema of the return value. */
  outputSchema?: Out;
  /** The schema of the data passed to `suspend()`. @default the `suspendSchema` of the workflow */
  suspendSchema?: Sus;
  /** The schema of `resumeData`. @default the `resumeSchema` of the workflow */
  resumeSchema?: Res;
}

/** Throws if an option that is named like a schema is not a schema. */
export function checkSchemas(options: object, what: string): void {
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || !/^(input|result|schema|\w+Schema)$/.test(key) || isSchema(value)) continue;
    throw new TypeError(
      `${what}: ${key} must be a schema from valibot, zod, arktype or another Standard Schema library`,
    );
  }
}

/** The context of a step's code. Its types come from the schemas of the step, else from those of the workflow. */
export type ContextWith<Data, Input, Resume, Suspend, In, Sus, Res> = StepContext<
  OutputOf<In, Data>,
  Input,
  OutputOf<Res, Resume>,
  InputOf<Sus, Suspend>
>;

/** A step without its defaults: the user's options, the user's code by suffix, and the order in which the code runs. */
interface StepParts<Options> extends StepTraits {
  readonly type: string;
  readonly options: Options;
  /** The required options. They are checked at run time for users without TypeScript. */
  readonly needs: { readonly [K in keyof Options]?: "function" | "object" };
  readonly codes?: StepCodes;
  readonly run: Step["run"];
}

/** Checks the options of a step and fills in the defaults. */
export function createStep<const Options extends { id: string; name?: string; purpose?: string; redact?: boolean }>({
  type,
  options,
  needs,
  codes = {},
  run,
  ...traits
}: StepParts<Options>): Options & StepTraits & Pick<Step, "type" | "name" | "purpose" | "codes" | "run"> {
  const { id, name = id, purpose = "" } = options;
  if (!isId(id)) throw new TypeError(`${type}: id: expected ${idRule}, found ${cut(String(JSON.stringify(id)))}`);
  for (const [key, kind] of Object.entries(needs)) {
    const value = options[key as keyof Options];
    if (typeof value !== kind || value === null) throw new TypeError(`${type} ${id}: ${key} is missing`);
  }
  checkSchemas(options, `${type} ${id}`);
  const { redact } = options;
  // A value such as "true" would otherwise redact nothing, without a word.
  if (redact !== undefined && typeof redact !== "boolean")
    throw new TypeError(`${type} ${id}: redact: expected true or false, found ${cut(String(JSON.stringify(redact)))}`);
  checkRetry(options, `${type} ${id}`);
  return Object.freeze({ ...options, ...traits, codes, run, type, name, purpose });
}
