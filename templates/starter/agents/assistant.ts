import { defineAgent, defineTool } from "agentserve";
import { echoModel } from "agentserve/models";
import * as v from "valibot"; // or zod, or arktype

const weather = defineTool({
  description: "Tells the weather of a city", // the model reads this to know when to call it
  inputSchema: v.object({ city: v.string() }),
  execute: ({ city }) => ({ city, sky: "blue", celsius: 21 }),
});

/** Ask it: "What is the weather in Berlin?" */
export const assistant = defineAgent({
  id: "assistant", // its place in URLs: POST /agents/assistant/text
  name: "Assistant",
  description: "Answers, and knows the weather",
  instructions: "You are a friendly assistant. Answer in one sentence.",
  // Needs no key: it repeats what it is told, and calls the tool that you name. For a real one: npm install @ai-sdk/openai,
  // OPENAI_API_KEY in .env, and model: "openai/gpt-5"
  model: echoModel({ wordMs: 30 }),
  tools: { weather },
});
