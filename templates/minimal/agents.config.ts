import { defineAgent, defineConfig } from "agentserve";
import { echoModel } from "agentserve/models";

const assistant = defineAgent({
  id: "assistant", // used in URLs: POST /agents/assistant/text
  instructions: "You are a friendly assistant.",
  // A model without an API key: it repeats the input. For a real model: npm install @ai-sdk/openai, set OPENAI_API_KEY
  // in .env, and use model: "openai/gpt-5"
  model: echoModel(),
});

export default defineConfig({
  agents: [assistant],
  server: { cors: { origin: ["http://localhost:5173"] } }, // the origins whose pages may call it
});
