import { defineConfig, jwtAuth, type Authorize } from "agentserve";
import { addOrders } from "./webhooks/orders.ts";

const secret = process.env.JWT_SECRET; // from .env, see .env.example
if (secret && !process.env.WEBHOOK_SECRET) throw new Error("WEBHOOK_SECRET is not set");

/** Decides who may do what, by the role in the token: npx agentserve token --sub grace --claim role=manager */
const authorize: Authorize = ({ action, user, execution }) => {
  if (user?.id === undefined) return false;
  const isManager = user.role === "manager";
  const isRequester = execution?.input?.requestedBy === String(user.id);
  switch (action) {
    case "execution.resume":
      return isManager && !isRequester; // a manager approves the orders of others
    case "execution.read":
    case "execution.cancel":
      return isManager || isRequester;
    case "execution.inspect":
    case "execution.retry":
    case "schedule.read":
    case "schedule.trigger":
    case "schedule.pause":
    case "log.read":
    case "metrics.read":
      return isManager;
    default:
      return false; // orders come from the webhook, reports from the schedule
  }
};

// Every workflow exported by a file in workflows/ is served, and every schedule of schedules/ is followed.
export default defineConfig({
  server: {
    // The origins whose pages may call this server from a browser. Without this line, every origin may.
    cors: { origin: ["http://localhost:5173"], credentials: true },
  },

  // With a secret, every route needs a token, except the webhook: its sender has none, and signs what it sends.
  auth: secret ? jwtAuth({ secret, defaultPrivate: true, publicRoutes: ["POST /webhooks/orders"] }) : undefined,
  authorize: secret ? authorize : undefined,

  configureApp(app, { runtime }) {
    addOrders(app, runtime);
  },
});
