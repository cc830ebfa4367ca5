// Workflows whose steps end the process, or hang, until the file `cured` exists. Each start of a step is a line of the log.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defineWorkflow, type StepContext } from "../../src/index.ts";
import { createLog, type Hosted } from "../harness/hosted.ts";
import { patientTimeouts } from "../harness/patience.ts";
import { serveReplica, type ReplicaPlace } from "./serve-replica.ts";

export default function create(place: ReplicaPlace): Hosted {
  const { folder } = place;
  const write = createLog(folder);
  const note = ({ idempotencyKey }: StepContext): void => write(idempotencyKey);
  const isCured = (): boolean => existsSync(join(folder, "cured"));

  /** A step that ends the process in some way. */
  const deadly = (id: string, end: () => void) =>
    defineWorkflow({ id })
      .andThen({ id: "before", execute: note })
      .andThen({
        id: "deadly",
        execute(context) {
          note(context);
          if (!isCured()) end();
          return "survived";
        },
      });
  const slow = defineWorkflow({ id: "slow" })
    .andThen({ id: "first", execute: note })
    .andThen({
      id: "second",
      async execute(context) {
        note(context);
        await sleep(500);
        return "made it";
      },
    });
  const hanging = defineWorkflow({ id: "hanging" }).andThen({
    id: "hangs",
    async execute(context) {
      note(context);
      while (!isCured()) await sleep(20, undefined, { signal: context.signal });
      return "survived";
    },
  });
  /** Every step ends the process when it first runs. */
  const progressing = [1, 2, 3, 4, 5].reduce(
    (chain, n) =>
      chain.andThen({
        id: `s${n}`,
        execute(context: StepContext) {
          note(context);
          if (existsSync(join(folder, `s${n}`))) return "done";
          writeFileSync(join(folder, `s${n}`), "");
          process.exit(1);
        },
      }),
    defineWorkflow({ id: "progressing" }) as any, // the type follows each step
  );
  const workflows = [
    deadly("exits", () => process.exit(1)),
    deadly("aborts", () => process.abort()),
    slow,
    hanging,
    progressing,
  ];
  return serveReplica(
    place,
    { workflows, server: { limits: { drainMs: 10, drainNoticeMs: 0 } } },
    { timeouts: patientTimeouts },
  );
}
