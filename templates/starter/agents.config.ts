import { defineConfig, jwtAuth, type Authorize } from "agentserve";

const secret = process.env.JWT_SECRET; // from .env, see .env.example

/** Decides who may do what, by the role in the token: npx agentserve token --sub grace --claim role=manager */
const authorize: Authorize = ({ action, user, execution }) => {
  const isManager = user?.role === "manager";
  switch (action) {
    case "agent.call":
    case "workflow.execute":
      return user !== undefined;
    case "execution.resume":
    case "execution.fork": // a fork may begin after the approval
      return isManager && !execution?.isOwn; // a manager approves the expenses of others
    default:
      return isManager || execution?.isOwn === true; // everyone else sees only the executions that they started
  }
};

// Every agent and workflow exported by a file in agents/ or workflows/ is served.
export default defineConfig({
  server: {
    // The origins whose pages may call this server from a browser. Without this line, every origin may.
    cors: { origin: ["http://localhost:5173"], credentials: true },
  },

  // With a secret, callers need a token to run an agent or a workflow (npx agentserve token --sub ada).
  auth: secret ? jwtAuth({ secret }) : undefined,
  authorize: secret ? authorize : undefined,

  // Custom routes, on h3: https://h3.dev
  configureApp(app) {
    app.get("/hello", () => ({ hello: "world" }));
  },
});
