import { defineConfig, jwtAuth } from "agentserve";

const secret = process.env.JWT_SECRET; // from .env, see .env.example

// Every agent and workflow exported by a file in agents/ or workflows/ is served.
export default defineConfig({
  server: {
    // The origins whose pages may call this server from a browser. Without this line, every origin may.
    cors: { origin: ["http://localhost:5173"], credentials: true },
  },

  // With a secret, callers need a token to run an agent or a workflow (npx agentserve token --sub ada). With ownership,
  // only the user who started an execution can read and resume it.
  auth: secret ? jwtAuth({ secret, ownership: true }) : undefined,

  // Custom routes, on h3: https://h3.dev
  configureApp(app) {
    app.get("/hello", () => ({ hello: "world" }));
  },
});
