import { expect, it } from "vitest";
import { defineWorkflow, type AuthProvider } from "agentserve";
import { describeServer } from "../../harness/server.ts";

const auth: AuthProvider = { type: "name", ownership: true, verifyToken: (id) => ({ id }) };
const workflows = [
  defineWorkflow({ id: "asks" }).andThen({ id: "ask", execute: ({ suspend }) => suspend("more?") }),
  defineWorkflow({ id: "quick" }).andThen({ id: "one", execute: () => 1 }),
];

describeServer("a taken execution id, with ownership", { config: { auth, workflows }, only: ["start"] }, (server) => {
  const run = (workflow: string, verb: string, user: string, id: string) =>
    server.post(
      `/workflows/${workflow}/${verb}`,
      { input: {}, options: { executionId: id } },
      { headers: { authorization: `Bearer ${user}` } },
    );

  it("answers 409 to a start with a taken id, with the same words for its user and for another one", async () => {
    await run("asks", "execute", "ada", "suspended-1");
    await run("quick", "execute", "ada", "completed-1");
    const answers = new Set<string>();
    for (const user of ["ada", "eve"]) {
      for (const id of ["suspended-1", "completed-1"]) {
        for (const [workflow, verb] of [
          ["asks", "execute"],
          ["quick", "execute"],
          ["quick", "stream"],
        ] as const) {
          const { status, headers, text } = await run(workflow, verb, user, id);
          const named = [...headers.keys()].filter((name) => !["date", "connection", "keep-alive"].includes(name));
          answers.add(`${status} ${named.join(" ")} ${text.replace(id, "<id>")}`);
        }
      }
    }
    expect([...answers].map((answer) => answer.slice(0, 3))).toEqual(["409"]);
  });

  it("keeps an execution as it is when another user starts one with its id", async () => {
    await run("asks", "execute", "ada", "kept-1");
    await run("asks", "execute", "eve", "kept-1");
    const read = (user: string) =>
      server.get("/workflows/asks/executions/kept-1/state", { headers: { authorization: `Bearer ${user}` } });
    expect((await read("ada")).body.data).toMatchObject({ status: "suspended" });
    expect((await read("eve")).status).toBe(404);
  });
});
