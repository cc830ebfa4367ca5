import { defineAgent, defineWorkflow, type AuthProvider } from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { createGates } from "../../harness/gates.ts";

export const gates = createGates();

/** Believes whoever says who he is: what is tested here is what follows from that. */
export const trusting: AuthProvider = {
  type: "trusting",
  verifyToken: (token) => JSON.parse(Buffer.from(token, "base64url").toString()) as object,
};
export const open = ["POST /workflows/*", "GET /workflows/*", "POST /agents/*"];
/** The headers of this user, of a user without an id, or of nobody. */
export function by(id: string | null | undefined): { headers: Record<string, string> } {
  if (id === undefined) return { headers: {} };
  const user = id === null ? { name: "faceless" } : { id, name: `user ${id}` };
  return { headers: { authorization: `Bearer ${Buffer.from(JSON.stringify(user)).toString("base64url")}` } };
}

/** Ends as its input says: at once, at a person, in an error, or at a gate of its name. */
const toWorkflow = (id: string) =>
  defineWorkflow({
    id,
    input: v.object({ end: v.picklist(["completed", "suspended", "error", "running"]) }),
    resumeSchema: v.object({ ok: v.boolean() }),
  }).andThen({
    id: "only",
    async execute({ input, executionId, resumeData, suspend }) {
      if (input.end === "error") throw new Error("as asked");
      if (input.end === "running") await gates.pass(executionId);
      if (input.end === "suspended" && !resumeData) return suspend("a private reason", { private: "data" });
      return { private: "result" };
    },
  });
export const tasks = toWorkflow("tasks");
export const others = toWorkflow("others");

/** What the model was shown, call by call: the texts of the user's messages. */
export const shown: string[][] = [];
const model = scriptedModel(
  Array.from({ length: 100_000 }, () => ({ prompt }: { prompt: readonly { role: string; content: unknown }[] }) => {
    const said = prompt.filter(({ role }) => role === "user").flatMap(({ content }) => content as { text: string }[]);
    shown.push(said.map(({ text }) => text));
    return "ok";
  }),
);
export const talkers = ["talker", "talker:2"].map((id) => defineAgent({ id, instructions: "Talk.", model }));
/** One workflow for each agent, of the same id: it passes on what it is told. */
export const relays = talkers.map((agent) =>
  defineWorkflow({ id: agent.id, input: v.object({ text: v.string() }) }).andAgent({
    id: "ask",
    agent,
    prompt: ({ data }) => data.text,
  }),
);
