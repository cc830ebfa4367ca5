import type { Authorize } from "../core/access/authorize.ts";
import { idRule, isId } from "../core/id.ts";
import { quote } from "../core/cut.ts";
import type { InputOf, OutputOf, Schema } from "../core/schema.ts";
import { checkConcurrency } from "../engine/definition/concurrency.ts";
import type {
  ConcurrencyOptions,
  Retry,
  Step,
  TypedWorkflow,
  WorkflowDefinition,
} from "../engine/definition/definition.ts";
import type { Duration } from "../engine/definition/until.ts";
import { andAgent, type AgentOptions } from "./steps/and-agent.ts";
import { andAll, andRace, type BranchOptions, type OutputsOf } from "./steps/and-all.ts";
import { andBranch, type BranchesOptions } from "./steps/and-branch.ts";
import { andDoUntil, andDoWhile, type DoOptions } from "./steps/and-do.ts";
import { andForEach, type ForEachOptions, type ForEachOutput, type ItemOf } from "./steps/and-for-each.ts";
import { checkChain } from "./steps/check-chain.ts";
import type { LastOutput } from "./steps/inner.ts";
import { andMap, type Mapped, type MapOptions, type MapSource } from "./steps/and-map.ts";
import { andSleep, andSleepUntil, type SleepOptions, type SleepUntilOptions } from "./steps/and-sleep.ts";
import { andWaitFor, type WaitForOptions, type WaitForOutput } from "./steps/and-wait-for.ts";
import { andTap, type TapOptions } from "./steps/and-tap.ts";
import { andThen, type ThenOptions } from "./steps/and-then.ts";
import { andWhen, type WhenOptions } from "./steps/and-when.ts";
import { andWorkflow, type WorkflowOptions } from "./steps/and-workflow.ts";
import {
  checkRetry,
  checkSchemas,
  type InputSchemaCheck,
  type MaybeSchema,
  type OutputOfStep,
  type StepIn,
} from "./steps/step.ts";

/** The options of `defineWorkflow()`. */
export interface DefineWorkflowOptions<
  In extends MaybeSchema,
  Out extends MaybeSchema,
  Sus extends MaybeSchema,
  Res extends MaybeSchema,
  Id extends string = string,
> {
  /** The unique id of the workflow. It is part of the URL: `/workflows/<id>`. */
  id: Id;
  /** The display name. @default the id */
  name?: string;
  /** A description for clients. @default "" */
  purpose?: string;
  /** The schema of the input. The input is validated before the execution starts. Without a schema, it is any object. */
  input?: In;
  /** The schema of the result. The output of the last step is validated against it. */
  result?: Out;
  /** The suspend schema of steps that do not set `suspendSchema`. */
  suspendSchema?: Sus;
  /** The resume schema of steps that do not set `resumeSchema`. */
  resumeSchema?: Res;
  /** The retry policy of steps that do not set `retry`. */
  retry?: Retry;
  /**
   * The treatment of an execution that was running when the process died: replay and continue, or end with an error.
   * @default "resume"
   */
  recovery?: "resume" | "fail";
  /**
   * Decides who may start this workflow, and who may do what to its executions. Needs an authentication provider.
   * @default `authorize` of the config
   */
  authorize?: Authorize | undefined;
  /** Max executions that run at the same time, in total or per key. Further ones wait. @default no limit */
  concurrency?: ConcurrencyOptions<OutputOf<In, AnyInput>>;
}

/** The input of a workflow without an input schema. */
export type AnyInput = Record<string, unknown>;

/**
 * Defines a workflow and starts its chain of steps. Each method of the chain returns a new workflow. In a step, `data`
 * has the output type of the step before.
 */
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
  const { id, name = id, purpose = "", recovery = "resume" } = options;
  const { retry, suspendSchema, resumeSchema, authorize, concurrency } = options;
  if (!isId(id)) throw new TypeError(`defineWorkflow: id: expected ${idRule}, found ${quote(id)}`);
  checkSchemas(options, `Workflow ${id}`);
  checkConcurrency(concurrency, id);
  if (authorize !== undefined && typeof authorize !== "function")
    throw new TypeError(`Workflow ${id}: authorize: expected a function`);
  checkRetry(options, `Workflow ${id}`);
  return new Workflow({
    type: "workflow",
    id,
    name,
    purpose,
    recovery,
    authorize,
    concurrency,
    retry,
    suspendSchema,
    resumeSchema,
    inputSchema: options.input,
    resultSchema: options.result,
    steps: [],
  });
}

/**
 * A workflow and its chain of steps. `Start` is the type that a caller sends, `Input` the output type of the input
 * schema, `Data` the last step's output type, and `Id` the literal type of the id. The fields of the definition are
 * properties of the instance.
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
  declare readonly authorize: Authorize | undefined;
  declare readonly concurrency: WorkflowDefinition["concurrency"];
  declare readonly steps: readonly Step[];
  declare readonly "~types"?: ((start: Start) => OutputOf<Out, Data>) | undefined;

  constructor(definition: WorkflowDefinition) {
    Object.freeze(Object.assign(this, definition));
  }

  /** Runs a function. Its return value is the next `data`. */
  andThen<
    Returned,
    In extends MaybeSchema = undefined,
    StepOut extends MaybeSchema = undefined,
    Sus extends MaybeSchema = undefined,
    Res extends MaybeSchema = undefined,
  >(
    options: ThenOptions<Data, Input, Resume, Suspend, Returned, In, StepOut, Sus, Res> & InputSchemaCheck<Data, In>,
  ): Workflow<Start, Input, OutputOf<StepOut, Awaited<Returned>>, Resume, Suspend, Out, Id> {
    return this.append(andThen(options));
  }

  /** Runs a step if a condition is true. Otherwise `data` does not change. */
  andWhen<Output>(
    options: WhenOptions<Data, Input, Resume, Suspend, Output>,
  ): Workflow<Start, Input, Data | Output, Resume, Suspend, Out, Id> {
    return this.append(andWhen(options));
  }

  /** Runs all branches concurrently. The next `data` is the array of their outputs, in order. */
  andAll<const Steps extends readonly StepIn<Data, Input, Resume, Suspend>[]>(
    options: BranchOptions<Steps>,
  ): Workflow<Start, Input, OutputsOf<Steps>, Resume, Suspend, Out, Id> {
    return this.append(andAll<Data, Input, Resume, Suspend, Steps>(options));
  }

  /** Runs all branches concurrently. The output of the first one to succeed is the next `data`. */
  andRace<const Steps extends readonly StepIn<Data, Input, Resume, Suspend>[]>(
    options: BranchOptions<Steps>,
  ): Workflow<Start, Input, OutputOfStep<Steps[number]>, Resume, Suspend, Out, Id> {
    return this.append(andRace<Data, Input, Resume, Suspend, Steps>(options));
  }

  /** Runs a side effect. `data` does not change. */
  andTap<In extends MaybeSchema = undefined>(
    options: TapOptions<Data, Input, Resume, Suspend, In> & InputSchemaCheck<Data, In>,
  ): Workflow<Start, Input, Data, Resume, Suspend, Out, Id> {
    return this.append(andTap(options));
  }

  /** Calls an agent. Its answer is the next `data`. */
  andAgent<Answer extends MaybeSchema = undefined, Output = OutputOf<Answer, string>>(
    options: AgentOptions<Data, Input, Resume, Suspend, Answer, Output>,
  ): Workflow<Start, Input, Output, Resume, Suspend, Out, Id> {
    return this.append(andAgent(options));
  }

  /** Runs another workflow inside this execution. Its result is the next `data`. */
  andWorkflow<Result, Output = Result>(
    options: WorkflowOptions<Data, Input, Resume, Suspend, Result, Output>,
  ): Workflow<Start, Input, Output, Resume, Suspend, Out, Id> {
    return this.append(andWorkflow(options));
  }

  /** Runs a step for each item of an array. The next `data` is the array of the outputs, in the order of the items. */
  andForEach<
    Item = ItemOf<Data>,
    Each = never,
    Output = never,
    const Rest extends readonly unknown[] = [],
    OnError extends "fail" | "collect" = "fail",
  >(
    options: ForEachOptions<Data, Input, Resume, Suspend, Item, Each, Output, Rest, OnError>,
  ): Workflow<Start, Input, ForEachOutput<LastOutput<Output, Rest>, OnError>, Resume, Suspend, Out, Id> {
    return this.append(andForEach<Data, Input, Resume, Suspend, Item, Each, Output, Rest, OnError>(options));
  }

  /** Runs a step at least once, and again while a condition is true. */
  andDoWhile<Output = never, const Rest extends readonly unknown[] = []>(
    options: DoOptions<Data, Input, Resume, Suspend, Output, Rest>,
  ): Workflow<Start, Input, LastOutput<Output, Rest>, Resume, Suspend, Out, Id> {
    return this.append(andDoWhile<Data, Input, Resume, Suspend, Output, Rest>(options));
  }

  /** Runs a step at least once, and again until a condition is true. */
  andDoUntil<Output = never, const Rest extends readonly unknown[] = []>(
    options: DoOptions<Data, Input, Resume, Suspend, Output, Rest>,
  ): Workflow<Start, Input, LastOutput<Output, Rest>, Resume, Suspend, Out, Id> {
    return this.append(andDoUntil<Data, Input, Resume, Suspend, Output, Rest>(options));
  }

  /** Runs every branch whose condition is true. The next `data` is an array in the order of the branches. */
  andBranch<const Outputs extends readonly unknown[]>(
    options: BranchesOptions<Data, Input, Resume, Suspend, Outputs>,
  ): Workflow<Start, Input, (Outputs[number] | null)[], Resume, Suspend, Out, Id> {
    return this.append(andBranch<Data, Input, Resume, Suspend, Outputs>(options));
  }

  /** Makes an object from known values: constants, `data`, the input, step outputs, the context. */
  andMap<
    Fields extends Record<string, MapSource<Data, Input, Resume, Suspend>>,
    StepOut extends MaybeSchema = undefined,
  >(
    options: MapOptions<Data, Input, Resume, Suspend, Fields, StepOut>,
  ): Workflow<Start, Input, OutputOf<StepOut, Mapped<Fields>>, Resume, Suspend, Out, Id> {
    return this.append(andMap<Data, Input, Resume, Suspend, Fields, StepOut>(options));
  }

  /** Waits for some time. `data` does not change. */
  andSleep(
    options: SleepOptions<Data, Input, Resume, Suspend>,
  ): Workflow<Start, Input, Data, Resume, Suspend, Out, Id> {
    return this.append(andSleep(options));
  }

  /** Waits until a date. `data` does not change. */
  andSleepUntil(
    options: SleepUntilOptions<Data, Input, Resume, Suspend>,
  ): Workflow<Start, Input, Data, Resume, Suspend, Out, Id> {
    return this.append(andSleepUntil(options));
  }

  /** Waits for an event that is sent to `POST /events`. Its data is the next `data`. */
  andWaitFor<EventSchema extends MaybeSchema = undefined, Timeout extends Duration | undefined = undefined>(
    options: WaitForOptions<Data, Input, Resume, Suspend, EventSchema, Timeout>,
  ): Workflow<Start, Input, WaitForOutput<EventSchema, Timeout>, Resume, Suspend, Out, Id> {
    return this.append(andWaitFor(options));
  }

  /** Returns this workflow with one more step. Every method of the chain ends here. */
  protected append<Next>(step: Step): Workflow<Start, Input, Next, Resume, Suspend, Out, Id> {
    checkChain(this, step);
    return new Workflow({ ...this, steps: [...this.steps, step] });
  }
}

export function isWorkflow(value: unknown): value is WorkflowDefinition {
  // Not `instanceof`: a project may hold a second copy of this package.
  return (
    typeof value === "object" && value !== null && "type" in value && value.type === "workflow" && "steps" in value
  );
}
