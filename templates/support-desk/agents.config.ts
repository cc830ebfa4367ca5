import { defineConfig, jwtAuth, type Authorize } from "agentserve";
import { addSignIn, secret } from "./demo/users.ts";
import { addPage } from "./web/serve.ts";

/** Decides who may do what, by the role in the token. */
const authorize: Authorize = ({ action, user, approval }) => {
  const isManager = user?.role === "manager";
  switch (action) {
    case "agent.call":
    case "conversation.read":
    case "conversation.delete":
      return user !== undefined; // these are about conversations of the user only
    case "conversation.others.read": // the chat behind a refund,
    case "conversation.others.append": // an answer in it,
    case "conversation.others.write": // and the stop of the agent
      return isManager;
    case "approval.decide":
      return isManager && !approval?.isOwn; // a manager decides about the refunds of others
    default:
      return false; // also for the actions of later versions
  }
};

/** The routes that need no token: the page, and the sign-in of the demo, which only `agentserve dev` has. */
const publicRoutes = ["GET /desk/*", "POST /sign-in"];

// Every agent exported by a file in agents/ is served.
export default defineConfig({
  server: { cors: { origin: [] } }, // the page has the same origin, and no other page may call this server

  // For the users of your identity provider: oidcAuth({ issuer, audience, defaultPrivate: true, publicRoutes })
  auth: jwtAuth({ secret, defaultPrivate: true, publicRoutes }),
  authorize,

  configureApp(app, { mode }) {
    addPage(app);
    if (mode === "dev") addSignIn(app); // never under `agentserve start`: anyone could sign in as a manager
  },
});
