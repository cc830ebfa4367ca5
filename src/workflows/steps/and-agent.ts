import type { ExecuteCode } from "../../engine/definition.ts";
import type { OutputOf } from "../../core/schema.ts";
import type { Agent, Prompt } from "../../engine/ask.ts";
import type { StepContext } from "../../engine/step-context.ts";
import { createStep, type OwnType, type MaybeSchema, type StepOptions, type TypedStep } from "./step.ts";

export type PromptContext<Data, Input, Resume, Suspend> = Omit<StepContext<Data, Input, Resume, Suspend>, "suspend">;

export interface AgentOptions<Data, Input, Resume, Suspend, Answer extends MaybeSchema, Output> extends StepOptions {
  agent: Agent;
  /** What the agent is asked: text, messages, or a function of the step context to either. */
  prompt: Prompt | ((context: PromptContext<Data, Input, Resume, Suspend>) => Prompt | Promise<Prompt>);
  /** When given, the answer is an object of this shape; otherwise it is text. */
  schema?: Answer;
  /** Makes the next `data` of the answer. @default the answer itself */
  map?: (
    answer: OutputOf<Answer, string>,
    context: PromptContext<Data, Input, Resume, Suspend>,
  ) => Output | Promise<Output>;
}

/** Asks an agent; its answer is the next `data`. */
export function andAgent<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  Answer extends MaybeSchema = undefined,
  Output = OutputOf<Answer, string>,
>(
  options: AgentOptions<Data, Input, Resume, Suspend, Answer, Output>,
): TypedStep<Data, Input, Resume, Suspend, OwnType<Output>> {
  const outputSchema = options.map ? undefined : options.schema;
  const { agent, prompt, schema, map } = options;
  const execute: ExecuteCode = async (context, tools) => {
    const asked = typeof prompt === "function" ? await prompt(context) : prompt;
    const answer = await tools.ask(agent, asked, { schema, context });
    // The agent has checked its answer against the schema.
    return map ? map(answer as OutputOf<Answer, string>, context) : answer;
  };
  return createStep({
    type: "andAgent",
    options: { ...options, outputSchema },
    needs: { agent: "object" },
    codes: { "": { ...options, outputSchema: undefined, execute } },
    run: (runner, data, resumed) => runner.entry(options.id, { data, resumed }),
  });
}
