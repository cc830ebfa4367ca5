import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { createModel, toModelParts, type ModelParts, type PlainAnswer } from "./create-model.ts";

/** The answer to one model call: text, plain data, an error to throw, or every part to stream. */
export type ScriptedAnswer =
  | string
  | Error
  | PlainAnswer
  | Iterable<LanguageModelV4StreamPart>
  /** The iterable may wait between parts, and may throw. */
  | AsyncIterable<LanguageModelV4StreamPart>;
/** One step of a script: an answer, or a function that returns it for the options of the call. */
export type ScriptedStep =
  | ScriptedAnswer
  | ((options: LanguageModelV4CallOptions) => ScriptedAnswer | Promise<ScriptedAnswer>);

/** A model that replays a script and records its calls. */
export interface ScriptedModel extends LanguageModelV4 {
  /** The options of every call so far, in order. */
  readonly calls: readonly LanguageModelV4CallOptions[];
}

/** Creates a model for tests that replays a script, with one step for each call. A call after the last step fails. */
export function scriptedModel(script: readonly ScriptedStep[]): ScriptedModel {
  const calls: LanguageModelV4CallOptions[] = [];
  async function* play(options: LanguageModelV4CallOptions): ModelParts {
    const step = script[calls.push(options) - 1];
    if (step === undefined) throw new Error(`scriptedModel: the script has no answer for call ${calls.length}`);
    const answer = typeof step === "function" ? await step(options) : step;
    if (answer instanceof Error) throw answer;
    if (typeof answer === "string") yield* toModelParts({ text: answer });
    else if (isIterable(answer)) yield* answer;
    else yield* toModelParts(answer);
  }
  return { ...createModel("scripted", play), calls };
}

const isIterable = <T>(value: object): value is Iterable<T> | AsyncIterable<T> =>
  Symbol.iterator in value || Symbol.asyncIterator in value;
