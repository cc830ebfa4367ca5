import { defineAgent, defineTool } from "agentserve";
import { echoModel } from "agentserve/models";
import * as v from "valibot"; // or zod, or arktype

const weather = defineTool({
  description: "Returns the weather in a city", // tells the model when to call this tool
  inputSchema: v.object({ city: v.string() }),
  execute: ({ city }) => ({ city, sky: "blue", celsius: 21 }),
});

/** Ask it: "What is the weather in Berlin?" */
export const assistant = defineAgent({
  id: "assistant", // used in URLs: POST /agents/assistant/text
  name: "Assistant",
  description: "Answers questions and knows the weather",
  instructions: "You are a friendly assistant. Answer in one sentence.",
  // A model without an API key: it repeats the input, and calls a tool if the input names it. For a real model:
  // npm install @ai-sdk/openai, set OPENAI_API_KEY in .env, and use model: "openai/gpt-5"
  model: echoModel({ wordMs: 30 }),
  tools: { weather },
});
