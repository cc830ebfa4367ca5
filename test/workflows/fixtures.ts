import * as v from "valibot";
import { andAll, andThen, andWhen, andWorkflow, defineWorkflow, ServeError } from "agentserve";
import { createGates } from "../harness/gates.ts";

export const gates = createGates();
/** How often each step of each execution ran: `<execution>/<step>`. */
const ran = new Map<string, number>();
export const timesRan = (execution: string, step: string): number => ran.get(`${execution}/${step}`) ?? 0;
const count = ({ executionId, stepId }: { executionId: string; stepId: string }): void => {
  const key = `${executionId}/${stepId}`;
  ran.set(key, (ran.get(key) ?? 0) + 1);
};

const double = defineWorkflow({
  id: "double",
  input: v.object({ n: v.number() }),
  result: v.object({ n: v.number() }),
})
  .andThen({ id: "times", execute: ({ data }) => ({ n: data.n * 2 }) })
  .andTap({ id: "look", execute: () => "ignored" });

/** Runs to its second step, which asks a person. */
const ask = defineWorkflow({
  id: "ask",
  input: v.object({ amount: v.number() }),
  suspendSchema: v.object({ question: v.string() }),
  resumeSchema: v.object({ approved: v.boolean() }),
})
  .andThen({
    id: "prepare",
    execute(context) {
      count(context);
      return {
        amount: context.data.amount,
        times: timesRan(context.executionId, "prepare"),
        note: context.resumeData ?? null,
      };
    },
  })
  .andThen({
    id: "person",
    execute(context) {
      count(context);
      const { data, resumeData, suspend } = context;
      if (!resumeData) return suspend(`Approve ${data.amount}?`, { question: "yes or no" });
      return { ...data, approved: resumeData.approved, by: context.resumedBy ?? null };
    },
  })
  .andThen({
    id: "finish",
    execute(context) {
      count(context);
      const { data, input, context: map, getStepData, idempotencyKey } = context;
      return { data, input, context: Object.fromEntries(map), prepared: getStepData("prepare"), idempotencyKey };
    },
  });

/** Its second step waits for the test. */
const gated = defineWorkflow({ id: "gated" })
  .andThen({ id: "first", execute: (context) => count(context) })
  .andThen({
    id: "second",
    async execute(context) {
      count(context);
      context.signal.addEventListener("abort", () => void gates.pass(`${context.executionId} aborted`));
      await gates.pass(context.executionId);
      if (context.input["fail"]) throw new Error("second failed");
      return "second";
    },
  })
  .andThen({
    id: "third",
    execute(context) {
      count(context);
      return [context.data, "third"];
    },
  });

const teapot = defineWorkflow({ id: "teapot" }).andThen({
  id: "pours",
  execute() {
    throw new ServeError(418, "I am a teapot");
  },
});

const approve = defineWorkflow({ id: "approve", resumeSchema: v.object({ ok: v.boolean() }) })
  .andThen({ id: "look", execute: (context) => count(context) })
  .andThen({
    id: "human",
    execute(context) {
      count(context);
      return context.resumeData ?? context.suspend("Approve?");
    },
  })
  .andThen({ id: "after", execute: ({ data }) => ({ decided: data }) });

/** A sub-workflow that suspends inside a branch of andAll inside andWhen. */
const deep = defineWorkflow({ id: "deep" })
  .andThen({ id: "start", execute: () => ({ go: true }) })
  .andWhen({
    id: "when",
    condition: ({ data }) => data.go,
    step: andAll({
      id: "all",
      steps: [
        andWorkflow({ id: "sub", workflow: approve }),
        andThen({
          id: "beside",
          execute(context) {
            count(context);
            return "beside";
          },
        }),
      ],
    }),
  })
  .andThen({ id: "end", execute: ({ data, getStepData }) => ({ data, human: getStepData("sub/human") }) });

const waits = (id: string) =>
  andThen({
    id,
    resumeSchema: v.string(),
    execute(context) {
      count(context);
      return context.resumeData ?? context.suspend(`Ask ${id}`);
    },
  });
/** Two branches that both ask. */
const two = defineWorkflow({ id: "two" }).andAll({
  id: "all",
  steps: [
    waits("left"),
    waits("right"),
    andWhen({ id: "never", condition: () => false, step: andThen({ id: "no", execute: () => 1 }) }),
  ],
});

export const workflows = [double, ask, gated, teapot, deep, two];
