import { expect, it } from "vitest";
import { andThen, defineWorkflow } from "agentserve";
import type { Engine, Resume } from "../../src/engine/contract/engine.ts";
import type { ExecutionState } from "../../src/engine/execution.ts";
import { resume } from "../../src/workflows/resume.ts";

// A resume that meets another running branch is refused by the engine, which may be suspended again by the next read.
const definition = defineWorkflow({ id: "two" }).andAll({
  id: "both",
  steps: [andThen({ id: "first", execute: () => 1 }), andThen({ id: "second", execute: () => 2 })],
});
const runnable = { definition, steps: [] };

const suspended = (epoch: number, keyOfSecond: string): ExecutionState => {
  const pending = [{ stepId: "second", key: keyOfSecond, stepIndex: 0, reason: "", at: epoch }];
  const execution = { id: "e", workflowId: "two", startAt: 0, steps: [] };
  return { execution, epoch, status: "suspended", last: { to: "suspended", at: epoch, pending } } as never;
};

/** An engine that refuses the resume of epoch 1, and has the newer state by then. */
function createEngine(now: ExecutionState) {
  const asked: (readonly [epoch: number, branch: string | undefined])[] = [];
  const engine = {
    state: async () => now,
    async resume(_: string, epoch: number, { branch }: Resume) {
      asked.push([epoch, branch]);
      return epoch === now.epoch && now;
    },
  };
  return { asked, engine: engine as unknown as Engine }; // what a resume calls
}

it("repeats a resume that was refused while another branch ran, if its branch still waits", async () => {
  const now = suspended(3, "second");
  const { asked, engine } = createEngine(now);
  expect(await resume(engine, runnable as never, suspended(1, "second"), { stepId: "second" })).toBe(now);
  expect(asked).toEqual([
    [1, "second"],
    [3, "second"],
  ]);
});

it("answers 404 to a resume whose step has continued meanwhile and waits again", async () => {
  const { asked, engine } = createEngine(suspended(3, "second@1"));
  const lost = resume(engine, runnable as never, suspended(1, "second"), { stepId: "second" });
  await expect(lost).rejects.toMatchObject({ status: 404 });
  expect(asked).toHaveLength(1);
});
