import { createHash } from "node:crypto";
import type { CallContext } from "../../core/caller.ts";
import { AgentError, ServeError } from "../../core/error.ts";
import type { Schema } from "../../core/schema.ts";
import { scopeRecords, type AttemptRecords } from "../../engine/contract/records.ts";
import type { Prompt } from "../../engine/definition/reference.ts";
import type { StepCaller } from "../../engine/runtime.ts";
import type { AgentDefinition } from "../define.ts";
import { fromSchema } from "../schemas/object-shape.ts";
import { readAnswer } from "./ask.ts";
import type { AgentCall } from "./question.ts";
import type { StreamPart } from "./answers/answer.ts";
import { toRecord } from "./record-text.ts";
import type { RecordLimits } from "./recorded-calls.ts";

/** A question that the code of a step asks by `runtime.ask`. */
export interface StepQuestion {
  readonly agent: AgentDefinition;
  readonly prompt: Prompt;
  readonly schema: Schema | undefined;
  readonly callContext: CallContext;
  /** The signal of the question itself. */
  readonly signal: AbortSignal | undefined;
}
export interface QuestionParts {
  readonly limits: RecordLimits;
  open(call: AgentCall): Promise<AsyncGenerator<StreamPart>>;
}

/**
 * The questions that one attempt of a step asks.
 *
 * Q1. A question is named by its content: the agent, the prompt, the options and the user, unless the execution has the
 *     same one. After a crash, the code of the step runs again and may ask in another order. Questions with the same content
 *     are numbered.
 * Q2. The calls of a question are recorded under its name, and at last its answer. One that is answered is not asked again.
 * Q3. A question that is open when the attempt ends fails.
 */
export class StepQuestions {
  readonly #step: StepCaller;
  readonly #parts: QuestionParts;
  readonly #counts = new Map<string, number>();
  #records: Promise<AttemptRecords> | undefined;

  constructor(step: StepCaller, parts: QuestionParts) {
    this.#step = step;
    this.#parts = parts;
  }

  /** Returns the text of the answer, or the object that the schema describes. */
  async ask({ agent, prompt, schema, callContext, signal }: StepQuestion): Promise<unknown> {
    const { execution, idempotencyKey, attemptId, signal: aborted, endSignal, logger } = this.#step;
    const shape = schema && fromSchema(schema);
    const { conversationId, context, userId } = callContext;
    const other = userId === execution.userId ? [] : [userId];
    const name = this.#toName([agent.id, prompt, conversationId, context, shape?.schema, ...other]);
    const records = scopeRecords(await (this.#records ??= this.#open()), `ask ${name} `);
    const toAnswer = (text: string): unknown => (shape ? shape.read(text) : text);
    signal?.throwIfAborted();
    const known = records.found.get(answerName);
    if (known !== undefined) return toAnswer(JSON.parse(known) as string);
    const parts = await this.#parts.open({
      agent,
      question: {
        input: prompt,
        toShape: shape && (async () => shape),
        trusted: true,
        // An execution id can be reused after retention has deleted the execution. `startAt` makes the name unique.
        turnName: `${execution.startAt} ${idempotencyKey} ${name}`,
      },
      callContext,
      signal: AbortSignal.any([aborted, endSignal, signal ?? []].flat()),
      step: this.#step,
      turn: { id: `${attemptId}/${name}`, records, isInputKnown: true },
    });
    try {
      const { text, object } = await readAnswer(parts);
      await records.write(answerName, JSON.stringify(text));
      return shape ? object : text;
    } catch (error) {
      if (!endSignal.aborted) throw error;
      const message = `The step ended before agent ${agent.id} had answered: await runtime.ask()`;
      if (!aborted.aborted) logger.warn(message);
      throw new AgentError(500, message, { cause: error, retry: false });
    }
  }

  #toName(content: unknown): string {
    const digest = createHash("sha256").update(toRecord(content)).digest("base64url").slice(0, 22);
    const count = (this.#counts.get(digest) ?? 0) + 1;
    this.#counts.set(digest, count);
    return `${digest}#${count}`;
  }

  /** Opens the records of the attempt. All of its questions together have the byte limit of an execution. */
  async #open(): Promise<AttemptRecords> {
    const { found, write } = await this.#step.openRecords("");
    const { executionBytes } = this.#parts.limits;
    let bytes = 0;
    for (const text of found.values()) bytes += Buffer.byteLength(text);
    return {
      found,
      async write(name, text, usage) {
        bytes += Buffer.byteLength(text);
        if (bytes <= executionBytes) return write(name, text, usage);
        throw new ServeError(
          500,
          `The questions of the step take more than ${executionBytes} bytes (limits.executionBytes)`,
        );
      },
    };
  }
}

const answerName = "answer";
