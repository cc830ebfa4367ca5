import { idRule, isId } from "../core/id.ts";
import type { InputOf, OutputOf, Schema } from "../core/schema.ts";
import type { Retry, Step, WorkflowDefinition } from "../engine/definition.ts";
import { andAgent, type AgentOptions } from "./steps/and-agent.ts";
import { andAll, type BranchOptions, type OutputsOf } from "./steps/and-all.ts";
import { andRace } from "./steps/and-race.ts";
import { andTap, type TapOptions } from "./steps/and-tap.ts";
import { andThen, type ThenOptions } from "./steps/and-then.ts";
import { andWhen, type WhenOptions } from "./steps/and-when.ts";
import { andWorkflow, type TypedWorkflow, type WorkflowOptions } from "./steps/and-workflow.ts";
import { checkSchemas, type MaybeSchema, type OutputOfStep, type StepIn } from "./steps/step.ts";

export interface DefineWorkflowOptions<
  In extends MaybeSchema,
  Out extends MaybeSchema,
  Sus extends MaybeSchema,
  Res extends MaybeSchema,
  Id extends string = string,
> {
  /** A part of the URL: `/workflows/<id>`. */
  id: Id;
  /** @default the id */
  name?: string;
  /** @default "" */
  purpose?: string;
  /** Checked before anything begins. Without one the input is any object. */
  input?: In;
  /** Checked when the last step is done. */
  result?: Out;
  /** For steps that have no `suspendSchema` of their own. */
  suspendSchema?: Sus;
  /** For steps that have no `resumeSchema` of their own. */
  resumeSchema?: Res;
  /** For steps that have no `retry` of their own. */
  retry?: Retry;
  /** What becomes of an execution that was running when the process died. @default "resume" */
  recovery?: "resume" | "fail";
}

/** The input of a workflow without an input schema. */
export type AnyInput = Record<string, unknown>;

/** Starts a chain. Each call on it returns a new chain; `data` has the type that the step before made. */
export function defineWorkflow<
  In extends MaybeSchema = undefined,
  Out extends MaybeSchema = undefined,
  Sus extends MaybeSchema = undefined,
  Res extends MaybeSchema = undefined,
  const Id extends string = string,
>(
  options: DefineWorkflowOptions<In, Out, Sus, Res, Id>,
): Workflow<
  InputOf<In, object>,
  OutputOf<In, AnyInput>,
  OutputOf<In, AnyInput>,
  OutputOf<Res, unknown>,
  InputOf<Sus, unknown>,
  Out,
  Id
> {
  const { id, name = id, purpose = "", recovery = "resume", retry, suspendSchema, resumeSchema } = options;
  if (!isId(id)) throw new TypeError(`defineWorkflow: id ${JSON.stringify(id)} is not ${idRule}`);
  checkSchemas(options, `Workflow ${id}`);
  return new Workflow({
    type: "workflow",
    id,
    name,
    purpose,
    recovery,
    retry,
    suspendSchema,
    resumeSchema,
    inputSchema: options.input,
    resultSchema: options.result,
    steps: [],
  });
}

/**
 * A workflow, as far as it is written. `Start` is what a caller sends, `Input` what the input schema makes of it, `Data`
 * what the last step made, `Id` its id as a literal. The fields of its definition are its own.
 */
export class Workflow<
  Start,
  Input,
  Data,
  Resume,
  Suspend,
  Out extends MaybeSchema,
  Id extends string = string,
> implements TypedWorkflow<Start, OutputOf<Out, Data>> {
  declare readonly type: "workflow";
  declare readonly id: Id;
  declare readonly name: string;
  declare readonly purpose: string;
  declare readonly inputSchema: Schema | undefined;
  declare readonly resultSchema: Schema | undefined;
  declare readonly suspendSchema: Schema | undefined;
  declare readonly resumeSchema: Schema | undefined;
  declare readonly retry: Retry | undefined;
  declare readonly recovery: "resume" | "fail";
  declare readonly steps: readonly Step[];
  declare readonly "~types"?: ((start: Start) => OutputOf<Out, Data>) | undefined;

  constructor(definition: WorkflowDefinition) {
    Object.freeze(Object.assign(this, definition));
  }

  /** Runs code; what it returns is the next `data`. */
  andThen<
    Returned,
    In extends MaybeSchema = undefined,
    StepOut extends MaybeSchema = undefined,
    Sus extends MaybeSchema = undefined,
    Res extends MaybeSchema = undefined,
  >(
    options: ThenOptions<Data, Input, Resume, Suspend, Returned, In, StepOut, Sus, Res> & InputSchemaCheck<Data, In>,
  ): Workflow<Start, Input, OutputOf<StepOut, Awaited<Returned>>, Resume, Suspend, Out, Id> {
    return this.#with(andThen(options));
  }

  /** Runs a step if a condition holds; otherwise `data` stays as it was. */
  andWhen<Output>(
    options: WhenOptions<Data, Input, Resume, Suspend, Output>,
  ): Workflow<Start, Input, Data | Output, Resume, Suspend, Out, Id> {
    return this.#with(andWhen(options));
  }

  /** Runs all branches at once; the next `data` is the list of their results, in order. */
  andAll<const Steps extends readonly StepIn<Data, Input, Resume, Suspend>[]>(
    options: BranchOptions<Steps>,
  ): Workflow<Start, Input, OutputsOf<Steps>, Resume, Suspend, Out, Id> {
    return this.#with(andAll<Data, Input, Resume, Suspend, Steps>(options));
  }

  /** Runs all branches at once; the first to fulfil gives the next `data`. */
  andRace<const Steps extends readonly StepIn<Data, Input, Resume, Suspend>[]>(
    options: BranchOptions<Steps>,
  ): Workflow<Start, Input, OutputOfStep<Steps[number]>, Resume, Suspend, Out, Id> {
    return this.#with(andRace<Data, Input, Resume, Suspend, Steps>(options));
  }

  /** A side effect: `data` goes on unchanged. */
  andTap<In extends MaybeSchema = undefined>(
    options: TapOptions<Data, Input, Resume, Suspend, In> & InputSchemaCheck<Data, In>,
  ): Workflow<Start, Input, Data, Resume, Suspend, Out, Id> {
    return this.#with(andTap(options));
  }

  /** Asks an agent; its answer is the next `data`. */
  andAgent<Answer extends MaybeSchema = undefined, Output = OutputOf<Answer, string>>(
    options: AgentOptions<Data, Input, Resume, Suspend, Answer, Output>,
  ): Workflow<Start, Input, Output, Resume, Suspend, Out, Id> {
    return this.#with(andAgent(options));
  }

  /** Runs another workflow inside this execution; its result is the next `data`. */
  andWorkflow<Result, Output = Result>(
    options: WorkflowOptions<Data, Input, Resume, Suspend, Result, Output>,
  ): Workflow<Start, Input, Output, Resume, Suspend, Out, Id> {
    return this.#with(andWorkflow(options));
  }

  #with<Next>(step: Step): Workflow<Start, Input, Next, Resume, Suspend, Out, Id> {
    const taken = new Set(this.steps.flatMap(idsOf));
    for (const id of idsOf(step)) {
      if (taken.has(id)) throw new TypeError(`Workflow ${this.id}: two steps have the id ${id}`);
      taken.add(id);
    }
    return new Workflow({ ...this, steps: [...this.steps, step] });
  }
}

/** A step's `inputSchema` must take what the step before made, or narrow it. */
export type InputSchemaCheck<Data, In> = [Data] extends [InputOf<In, Data>]
  ? unknown
  : [InputOf<In, Data>] extends [Data]
    ? unknown
    : { inputSchema: "the step before makes something else" };

/** The ids that a step takes up in its workflow. Those inside a sub-workflow stand under the id of its step. */
function idsOf(step: Step): string[] {
  const nested = step.type === "andWorkflow" ? [] : (step.steps ?? []);
  return [step.id, ...nested.flatMap(idsOf)];
}

export function isWorkflow(value: unknown): value is WorkflowDefinition {
  // Not `instanceof`: a project may hold a second copy of this package.
  return (
    typeof value === "object" && value !== null && "type" in value && value.type === "workflow" && "steps" in value
  );
}
