import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { createModel, toModelParts, type ModelParts, type PlainAnswer } from "./create-model.ts";

/** What the model answers to one call: text, tool calls, an error, or every part that it streams. */
export type ScriptedAnswer =
  | string
  | Error
  | PlainAnswer
  | Iterable<LanguageModelV4StreamPart>
  /** May wait between its parts, and may throw. */
  | AsyncIterable<LanguageModelV4StreamPart>;
export type ScriptedStep =
  | ScriptedAnswer
  | ((options: LanguageModelV4CallOptions) => ScriptedAnswer | Promise<ScriptedAnswer>);

export interface ScriptedModel extends LanguageModelV4 {
  /** What it was asked, call by call. */
  readonly calls: readonly LanguageModelV4CallOptions[];
}

/** A model that replays what a test wrote: one answer for each call. A call beyond the last one fails. */
export function scriptedModel(script: readonly ScriptedStep[]): ScriptedModel {
  const calls: LanguageModelV4CallOptions[] = [];
  async function* play(options: LanguageModelV4CallOptions): ModelParts {
    const step = script[calls.push(options) - 1];
    if (step === undefined) throw new Error(`scriptedModel: nothing is written for call ${calls.length}`);
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
