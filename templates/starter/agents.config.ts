import { defineConfig } from "agentserve";

export default defineConfig({
  server: { cors: { origin: ["http://localhost:5173"], credentials: true } },
  configureApp(app) {
    app.get("/health", () => ({ ok: true }));
  },
});
