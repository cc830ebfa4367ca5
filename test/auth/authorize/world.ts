import { defineWorkflow, type AuthProvider, type AuthorizeRequest } from "agentserve";
import * as v from "valibot";

/** Believes each token: it is the user, as JSON in base64url. */
export const trusting: AuthProvider = {
  type: "trusting",
  verifyToken: (token) => JSON.parse(Buffer.from(token, "base64url").toString()) as object,
};

/** The headers of a user, by its id or with more fields, or of an anonymous caller. */
export function by(user: string | object | undefined): { headers: Record<string, string> } {
  if (user === undefined) return { headers: {} };
  const text = JSON.stringify(typeof user === "string" ? { id: user } : user);
  return { headers: { authorization: `Bearer ${Buffer.from(text).toString("base64url")}` } };
}

/** An expense that somebody has to approve. */
export const expense = defineWorkflow({
  id: "expense",
  input: v.object({ amount: v.number() }),
  resumeSchema: v.object({ approved: v.boolean() }),
}).andThen({
  id: "approve",
  execute({ input, resumeData, resumedBy, suspend }) {
    if (!resumeData) return suspend("Approve?", { amount: input.amount });
    return { approved: resumeData.approved, by: resumedBy?.userId ?? null };
  },
});

/** The questions, with the values of the execution read out. */
export function toPlain(request: AuthorizeRequest): unknown {
  return JSON.parse(JSON.stringify(request));
}
