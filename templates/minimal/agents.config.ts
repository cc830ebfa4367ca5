import { defineAgent, defineConfig } from "agentserve";
import { echoModel } from "agentserve/models";

const assistant = defineAgent({
  id: "assistant", // its place in URLs: POST /agents/assistant/text
  instructions: "You are a friendly assistant.",
  // Repeats what it is told, without a key. For a real one: npm install @ai-sdk/openai, OPENAI_API_KEY in .env, and
  // model: "openai/gpt-5"
  model: echoModel(),
});

export default defineConfig({
  agents: [assistant],
  server: { cors: { origin: ["http://localhost:5173"] } }, // the pages that may call it from a browser
});
