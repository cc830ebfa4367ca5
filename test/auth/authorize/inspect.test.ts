import { expect, it } from "vitest";
import { defineAgent, type Authorize } from "agentserve";
import { echoModel } from "agentserve/models";
import { createAuthorizer } from "../../../src/core/access/authorizer.ts";
import type { Identity } from "../../../src/core/caller.ts";
import type { ExecutionState } from "../../../src/engine/execution.ts";
import { mayInspect } from "../../../src/workflows/access.ts";
import { createTestLogger, startTestServer } from "../../harness/server.ts";
import { by, trusting } from "./world.ts";

const execution = { id: "e", workflowId: "w", input: "{}", context: {}, userId: "ada", startAt: 0, steps: [] };
const state: ExecutionState = { execution, status: "completed", epoch: 1 };

const identities = {
  "no provider": { checked: false, caller: undefined },
  anonymous: { checked: true, caller: undefined },
  owner: { checked: true, caller: { user: { id: "ada" }, userId: "ada" } },
  other: { checked: true, caller: { user: { id: "bob" }, userId: "bob" } },
} satisfies Record<string, Omit<Identity, "ownership">>;
type Who = keyof typeof identities;

// docs/workflows.md, "See what happened".
const rules: [rule: string, who: Who[], how: { isDev?: boolean; ownership?: boolean; authorize?: boolean }][] = [
  ["dev", ["no provider", "owner", "other"], { isDev: true }],
  ["start", ["owner"], {}],
  ["dev, ownership", ["owner"], { isDev: true, ownership: true }],
  ["start, ownership", ["owner"], { ownership: true }],
  ["dev, authorize refuses", ["owner"], { isDev: true, authorize: false }],
  ["start, authorize refuses", ["owner"], { authorize: false }],
  ["dev, authorize allows", ["anonymous", "owner", "other"], { isDev: true, authorize: true }],
  ["start, authorize allows", ["anonymous", "owner", "other"], { authorize: true }],
];

it.each(rules)("shows the values of steps under the rule %s only to %j", async (_, who, how) => {
  const { isDev = false, ownership = false, authorize } = how;
  const authorizer = createAuthorizer({
    authorize: authorize === undefined ? undefined : ({ action }) => authorize && action === "execution.inspect",
    workflows: [],
    agents: [],
    logger: createTestLogger([]),
  });
  // A config with `authorize` and without a provider is refused.
  const asked = Object.entries(identities).filter(([name]) => !authorizer || name !== "no provider");
  const shown: string[] = [];
  for (const [name, identity] of asked) {
    const request = { identity: { ownership, ...identity }, snapshot: { authorizer } };
    if (await mayInspect(request, state, isDev)) shown.push(name);
  }
  expect(shown).toEqual(who);
});

it.each(["dev", "start"] as const)(
  "shows the instructions of an agent to callers whom authorize allows to call it (%s)",
  async (target) => {
    const authorize: Authorize = ({ action, user, agentId }) =>
      action === "agent.call" && agentId === "secretive" && user?.["id"] !== "bob";
    const agents = ["secretive", "closed"].map((id) =>
      defineAgent({ id, instructions: "Tell nobody.", model: echoModel() }),
    );
    const { get } = await startTestServer(target, { config: { agents, auth: trusting, authorize } });
    const shown = async (id: string, user: string | undefined) =>
      (await get(`/agents/${id}`, by(user))).body.data.instructions;
    expect(await shown("secretive", "ada")).toBe("Tell nobody.");
    expect(await shown("secretive", "bob")).toBeUndefined();
    expect(await shown("secretive", undefined)).toBeUndefined();
    expect(await shown("closed", "ada")).toBeUndefined();
  },
);
