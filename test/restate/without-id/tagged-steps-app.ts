// Each start of a step is a line of the log: tag, execution id, step. The tag is in the input: a caller has no id.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defineWorkflow, type StepContext } from "../../../src/index.ts";
import { createLog, type Hosted } from "../../harness/hosted.ts";
import { patientTimeouts } from "../../harness/patience.ts";
import { serveReplica, type ReplicaPlace } from "../serve-replica.ts";

type Context = StepContext<any, any, any, any>; // the input is { tag, ms }
interface Options extends ReplicaPlace {
  readonly retention?: string;
}

export default function create(place: Options): Hosted {
  const { folder, retention } = place;
  const write = createLog(folder);
  const note = ({ input, executionId, stepId }: Context): void => write(`${input.tag} ${executionId} ${stepId}`);
  const untilOpen = async ({ input, signal }: Context): Promise<void> => {
    while (!existsSync(join(folder, `open-${input.tag}`))) await sleep(10, undefined, { signal });
  };
  /** A step that notes its start and returns its tag and its id. */
  const step = (id: string, during: (context: Context) => unknown = () => {}) => ({
    id,
    async execute(context: Context) {
      note(context);
      await during(context);
      return `${context.input.tag} ${id}`;
    },
  });
  const toChain = (id: string, steps: readonly ReturnType<typeof step>[], recovery: "resume" | "fail" = "resume") =>
    // The type follows each step.
    steps.reduce((chain, one) => chain.andThen(one), defineWorkflow({ id, recovery }) as any);

  const takesTime = ({ input, stepId }: Context) => sleep(input.ms?.[Number(stepId.slice(1)) - 1] ?? 0);
  const quick = toChain(
    "quick",
    ["s1", "s2", "s3", "s4"].map((id) => step(id, takesTime)),
  );
  const broken = toChain("broken", [
    step("s1"),
    step("s2", () => {
      throw new Error("Broken on purpose");
    }),
  ]);
  /** Its second step fails until the gate of its tag is open. */
  const mended = toChain("mended", [
    step("s1"),
    step("s2", ({ input }) => {
      if (!existsSync(join(folder, `open-${input.tag}`))) throw new Error("Not mended yet");
    }),
    step("s3", takesTime),
    step("s4", async ({ input, signal }) => {
      while (input.holds && !existsSync(join(folder, `open-${input.tag}-end`))) await sleep(10, undefined, { signal });
    }),
  ]);
  /** Values of 36 MB in all, more than a message of Restate may have. The last step returns their lengths. */
  const heavySteps = Array.from({ length: 9 }, (_, index) => `h${index}`);
  const heavy = heavySteps
    .reduce(
      (chain, id) =>
        chain.andThen({ id, execute: (context: Context) => (note(context), id.at(-1)!.repeat(4_000_000)) }),
      defineWorkflow({ id: "heavy" }) as any, // the type follows each step
    )
    .andThen({
      id: "sum",
      execute: (context: Context) => {
        note(context);
        return heavySteps.map((id) => (context.getStepData(id) as string).length);
      },
    });
  const gatedSteps = [step("s1"), step("s2", untilOpen), step("s3")];
  const exit = (context: Context): void => {
    if (!existsSync(join(folder, `open-${context.input.tag}`))) process.exit(1);
  };
  const workflows = [
    quick,
    broken,
    mended,
    heavy,
    toChain("gated", gatedSteps),
    toChain("unrecovered", gatedSteps, "fail"),
    toChain("deadly", [step("s1"), step("s2", exit), step("s3")]),
  ];
  const limits = { runningExecutions: 1_000, queuedExecutions: 1_000, drainMs: 10, drainNoticeMs: 0 };
  const options = { timeouts: patientTimeouts, ...(retention !== undefined && { retention }) };
  return serveReplica(place, { workflows, server: { limits } }, options);
}
