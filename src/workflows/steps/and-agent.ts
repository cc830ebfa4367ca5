import type { ExecuteCode } from "../../engine/definition/definition.ts";
import type { OutputOf } from "../../core/schema.ts";
import type { Agent, Prompt } from "../../engine/definition/reference.ts";
import type { StepContext } from "../../engine/definition/step-context.ts";
import { createStep, type OwnType, type MaybeSchema, type StepOptions, type TypedStep } from "./step.ts";

/** The step context of `prompt` and `map`. These functions cannot suspend. */
export type PromptContext<Data, Input, Resume, Suspend> = Omit<StepContext<Data, Input, Resume, Suspend>, "suspend">;

/** The options of `andAgent()`. */
export interface AgentOptions<Data, Input, Resume, Suspend, Answer extends MaybeSchema, Output> extends StepOptions {
  /** The agent to call, as returned by `defineAgent()`. */
  agent: Agent;
  /** The prompt: text, messages, or a function that returns either. */
  prompt: Prompt | ((context: PromptContext<Data, Input, Resume, Suspend>) => Prompt | Promise<Prompt>);
  /** The schema of the answer. Without one, the answer is text. */
  schema?: Answer;
  /** Converts the answer to the next `data`. @default the answer itself */
  map?: (
    answer: OutputOf<Answer, string>,
    context: PromptContext<Data, Input, Resume, Suspend>,
  ) => Output | Promise<Output>;
}

/** Calls an agent. Its answer is the next `data`. */
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
    // The agent has validated its answer against the schema.
    return map ? map(answer as OutputOf<Answer, string>, context) : answer;
  };
  return createStep({
    type: "andAgent",
    shape: "leaf",
    options: { ...options, outputSchema },
    needs: { agent: "object" },
    codes: { "": { ...options, outputSchema: undefined, execute } },
    run: (runner, data, resumed) => runner.entry(options.id, { data, resumed }),
  });
}
