import { defineConfig, jwtAuth } from "agentserve";

const secret = process.env.JWT_SECRET; // from .env, see .env.example

// What the files in agents/ and workflows/ export is served: add a file, and there is one more.
export default defineConfig({
  server: {
    // The pages that may call this server from a browser. Without this line, those of every origin may.
    cors: { origin: ["http://localhost:5173"], credentials: true },
  },

  // Once there is a secret, whoever runs an agent or a workflow needs a token (npx agentserve token --sub ada), and
  // only the one who began an execution may see it and go on with it.
  auth: secret ? jwtAuth({ secret, ownership: true }) : undefined,

  // Routes of your own, on h3: https://h3.dev
  configureApp(app) {
    app.get("/health", () => ({ ok: true }));
  },
});
