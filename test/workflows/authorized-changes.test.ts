// `authorize` is code of the author. A change is passed in the middle of a commit, where no such code may run.
import { expect, it, onTestFinished } from "vitest";
import { createAuthorizer } from "../../src/core/access/authorizer.ts";
import type { Identity } from "../../src/core/caller.ts";
import type { Engine } from "../../src/engine/contract/engine.ts";
import type { ExecutionState } from "../../src/engine/execution.ts";
import { Changes } from "../../src/engine/runs/changes.ts";
import { AuthorizedChanges } from "../../src/workflows/lists/authorized-changes.ts";

it("asks authorize about a change of a list stream after the engine has passed it", async () => {
  const asked: string[] = [];
  const authorizer = createAuthorizer({
    authorize: ({ execution }) => asked.push(execution!.status) > 0,
    workflows: [],
    agents: [],
    logger: { error: expect.unreachable },
  })!;
  const changes = new Changes();
  const engine = { watch: (...args) => changes.watch(...args) } satisfies Partial<Engine> as unknown as Engine; // no more is used
  const identity: Identity = { checked: true, ownership: false, caller: { user: { id: "ann" }, userId: "ann" } };
  const left = new AbortController();
  onTestFinished(() => left.abort());
  const stream = new AuthorizedChanges(engine).follow({ identity, snapshot: { authorizer } }, authorizer, {
    filter: {},
    visible: undefined,
    signal: left.signal,
  });

  const execution: ExecutionState["execution"] = {
    id: "e",
    workflowId: "w",
    input: "{}",
    context: {},
    startAt: 0,
    steps: [],
  };
  changes.publish({ execution, status: "running", epoch: 0 });
  expect(asked).toEqual([]);
  expect((await stream.next()).value).toMatchObject({ executionId: "e", status: "running" });
  expect(asked).toEqual(["running"]);
});
