import { defineAgent, defineTool } from "agentserve";
import { echoModel } from "agentserve/models";
import * as v from "valibot";

const weather = defineTool({
  description: "Tells the weather of a city",
  inputSchema: v.object({ city: v.string() }),
  execute: ({ city }) => ({ city, sky: "blue", celsius: 21 }),
});

/** Ask it: "What is the weather in Berlin?" */
export const assistant = defineAgent({
  id: "assistant",
  name: "Assistant",
  description: "Answers, and knows the weather",
  instructions: "You are a friendly assistant. Answer in one sentence.",
  // Needs no key: it says what it is told, and calls the tool that you name. A real one: model: "openai/gpt-5",
  // with `npm install @ai-sdk/openai` and OPENAI_API_KEY in .env
  model: echoModel({ wordMs: 30 }),
  tools: { weather },
});
