import type { Authorize } from "../../src/index.ts";

/** The `authorize` of the template support-desk in release 2: projects have it, and must stay closed with new actions. */
export const deskAuthorize: Authorize = ({ action, user, approval }) => {
  switch (action) {
    case "agent.call":
    case "conversation.read":
    case "conversation.delete":
      return user !== undefined; // of conversations, each user finds only their own
    case "approval.decide":
      return user?.role === "manager" && !approval?.isOwn; // a manager decides about the refunds of others
    default:
      return false; // also for the actions of later versions
  }
};
