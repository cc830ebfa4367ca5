import { idRule, isId } from "../../core/id.ts";
import { quote } from "../../core/cut.ts";
import { isSchema, type InputOf, type OutputOf, type Schema } from "../../core/schema.ts";
import type { StepContext } from "../../engine/definition/step-context.ts";
import type { Retry, Step, StepCodes } from "../../engine/definition/definition.ts";
import type { StepTraits } from "../../engine/definition/step-traits.ts";

/** A step with the types of its workflow, and its own output type. */
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

/** A compile-time check: the `inputSchema` of a step must accept the previous output, or narrow it. */
export type InputSchemaCheck<Data, In> = [Data] extends [InputOf<In, Data>]
  ? unknown
  : [InputOf<In, Data>] extends [Data]
    ? unknown
    : { inputSchema: "does not accept the output of the previous step" };

/** Throws if an option that is named like a schema is not a schema. */
export function checkSchemas(options: object, what: string): void {
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || !/^(input|result|schema|\w+Schema)$/.test(key) || isSchema(value)) continue;
    throw new TypeError(
      `${what}: ${key} must be a schema from valibot, zod, arktype or another Standard Schema library`,
    );
  }
}

/** The context of a step's code. Its types come from the step's schemas, else from the schemas of the workflow. */
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
  if (!isId(id)) throw new TypeError(`${type}: id: expected ${idRule}, found ${quote(id)}`);
  for (const [key, kind] of Object.entries(needs)) {
    const value = options[key as keyof Options];
    if (typeof value !== kind || value === null) throw new TypeError(`${type} ${id}: ${key} is missing`);
  }
  checkSchemas(options, `${type} ${id}`);
  const { redact } = options;
  // A value such as "true" would otherwise redact nothing, without a word.
  if (redact !== undefined && typeof redact !== "boolean")
    throw new TypeError(`${type} ${id}: redact: expected true or false, found ${quote(redact)}`);
  checkRetry(options, `${type} ${id}`);
  return Object.freeze({ ...options, ...traits, codes, run, type, name, purpose });
}

type RetryRule = readonly [expected: string, isValid: (value: number) => boolean];

const isDuration = (value: number): boolean => Number.isFinite(value) && value >= 0;
const retryRules: Record<string, RetryRule> = {
  attempts: [
    "a whole number from 1, or Infinity",
    (value) => (Number.isInteger(value) || value === Infinity) && value >= 1,
  ],
  delay: ["milliseconds from 0", isDuration],
  backoff: ["a number from 0", isDuration],
  maxDelay: ["milliseconds from 0", isDuration],
  jitter: ["a number from 0 to 1", (value) => value >= 0 && value <= 1],
};

/** Throws if the `retry` of a step or a workflow has a wrong value. */
export function checkRetry(options: object, what: string): void {
  const retry = "retry" in options ? options.retry : undefined;
  if (retry === undefined) return;
  if (typeof retry !== "object" || retry === null || Array.isArray(retry))
    throw new TypeError(`${what}: retry: expected an object such as { attempts: 3 }, found ${quote(retry)}`);
  for (const [name, [expected, isValid]] of Object.entries(retryRules)) {
    const value = (retry as Record<string, unknown>)[name];
    if (value === undefined && name !== "attempts") continue;
    if (typeof value === "number" && isValid(value)) continue;
    throw new TypeError(`${what}: retry.${name}: expected ${expected}, found ${quote(value)}`);
  }
}
