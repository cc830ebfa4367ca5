import type { LanguageModelV4 } from "@ai-sdk/provider";
import type { Sdk } from "../sdk.ts";
import { createModel, toModelParts } from "./create-model.ts";

/**
 * Returns a model that is not asked while the call is paused: its answer is empty then. The SDK always asks the model after it
 * has run the tools that were approved.
 */
export function pauseModel(sdk: Sdk, model: LanguageModelV4, isPaused: () => boolean): LanguageModelV4 {
  return sdk.wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: "v4",
      wrapGenerate: ({ doGenerate, params }) => (isPaused() ? silent.doGenerate(params) : doGenerate()),
    },
  });
}

const silent = createModel("silent", () => toModelParts({ usage: { inputTokens: 0, outputTokens: 0 } }));
