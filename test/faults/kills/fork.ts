import type { Client } from "./client.ts";
import { stops, topSteps } from "./oracle.ts";
import type { Plan } from "./plan.ts";
import { endsByItself } from "./waits.ts";
import type { Data } from "./workload.ts";
import type { View, Witness } from "./witness.ts";

/** The world, as a client knows it. */
export interface Others {
  /** An execution has an id. */
  known(client: Client, witness: Witness): void;
  /** Resolves once the fork has begun; `over` is its end. */
  fork(plan: Plan, original: Client): Promise<{ readonly over: Promise<void> }>;
}

/** The fork that is to be made of an execution which has become this. */
export function forkOf({ plan }: Client, witness: Witness, view: View): Plan | undefined {
  const { fork, workflow } = plan;
  const stop = witness.isFailure(view) ? "failed" : view.status;
  // A suspension by request may be anywhere.
  if (!fork || stop !== fork.of) return undefined;
  if (stop === "suspended" && (view.suspension.reason === witness.suspendReason || endsByItself(view.suspension)))
    return undefined;
  const { fromStep, by, way, retries } = fork;
  const isSame = by === "id";
  const byDefault = fork.of === "completed" ? 0 : stops[workflow][fork.of];
  const index = fromStep === undefined ? byDefault : topSteps(workflow).indexOf(fromStep);
  return {
    ...plan,
    id: isSame ? `${witness.id}f` : undefined,
    way,
    // One that begins after the weak steps has copied what they made when they were mended.
    retries: isSame && index > stops[workflow].failed ? 0 : retries,
    act: undefined,
    ending: "resume",
    fork: undefined,
    origin: {
      id: witness.id,
      fromStep,
      index: isSame ? index : 0,
      tokens: witness.tokens(),
      trail: (view.result as Data | null)?.trail ?? [],
    },
  };
}

/** The state and the events of an execution, as text. */
export async function toSnapshot(client: Client): Promise<string> {
  for (;;) {
    const reply = await client.lives.ask(client.path("state"));
    if (reply) return JSON.stringify([reply, await client.stored()]);
  }
}
