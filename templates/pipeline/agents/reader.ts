import { defineAgent } from "agentserve";
import { echoModel } from "agentserve/models";

/** Reads one page of a document. */
export const reader = defineAgent({
  id: "reader",
  name: "Reader",
  description: "Summarizes a page",
  instructions: "Summarize the page in one sentence, and count its words.",
  // A model without an API key: it repeats the input, or fills the schema of the answer with it. For a real model:
  // npm install @ai-sdk/openai, set OPENAI_API_KEY in .env, and use model: "openai/gpt-5"
  model: echoModel(),
});
