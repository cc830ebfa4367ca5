import { childNames, toChildNumber, type ChildInput, type ChildName } from "./child.ts";
import { isCopied, type Asked } from "./oracle.ts";
import { simple, type Plan } from "./plan.ts";
import type { Serving } from "./process.ts";
import type { Witness } from "./witness.ts";

/** The plan of a child that is followed to its end. */
export function toChildPlan(parent: Witness, { reads }: Pick<Plan, "reads">, name: ChildName, id: string): Plan {
  const { n, settings } = parent.asked;
  return {
    ...simple,
    workflow: "kid",
    n: toChildNumber(n, name),
    id,
    child: { parent: parent.id, name },
    settings: { ...settings, broken: false },
    reads,
  };
}

/** The input that an execution was given. */
export const toInput = ({ n, child }: Asked): { readonly n: number } | ChildInput => ({ n, ...child });

/** Holds the children of an execution of `family` against it, when all of them have ended. */
export function checkFamily(parent: Witness, children: readonly Witness[]): void {
  const { id, asked, log, final } = parent;
  for (const name of childNames) {
    const own = children.filter(({ asked: { child } }) => child!.name === name);
    const started = log.childrenOf(id).filter((one) => one.name === name);
    const ids = new Set([...own, ...started].map((one) => one.id));
    if (ids.size > 1) parent.fail(`has several children ${name}: ${[...ids].join()}`);
    const [child] = own;
    if (ids.size > 0 && isCopied(asked, "kids")) parent.fail(`has a child ${name}, and its step was copied`);
    if (!child) {
      if (ids.size > 0 || (final && !final.cancellation && !isCopied(asked, "kids")))
        parent.fail(`has no child ${name}`);
      continue;
    }
    if (!child.id.startsWith("child:")) child.fail(`is the child of ${id}, and has another id`);
    const cancellation = child.final?.cancellation;
    if (!child.final) child.fail(`has not ended, and its parent ${id} has`);
    if (cancellation && cancellation.reason !== final?.cancellation?.reason)
      child.fail(`was cancelled, and its parent ${id} was not`);
  }
}

/** A cancel of an execution was acknowledged: its child that is tied to it has ended. */
export async function checkTied(witness: Witness, lives: Serving): Promise<void> {
  const tied = lives.log.childrenOf(witness.id).find(({ name }) => name === "tied");
  const reply = tied && (await lives.ask(`/workflows/kid/executions/${tied.id}/state`));
  const status = reply?.body.data?.status;
  if (status === "running" || status === "suspended")
    witness.fail(`was cancelled, and its child ${tied!.id} is ${status}`);
}

/** Fails when crashes have suspended an execution of `family`, and fewer than three of them can have hit its own code. */
export function checkInterruption(witness: Witness, life: number): void {
  const { id, asked, log } = witness;
  if (asked.workflow !== "family") return;
  let crashes = 0;
  for (let past = log.of(id)[0]?.life ?? life; past < life; past++) if (!isWaitingAtTheEndOf(past, witness)) crashes++;
  if (crashes < 3) witness.fail(`was suspended after ${crashes} crashes that hit more than a wait`);
}

/** Whether an execution surely waited when this life ended: a row of a child was committed after the wait had begun. */
function isWaitingAtTheEndOf(life: number, { id, log }: Witness): boolean {
  const wait = log.waitsOf(id).findLast((one) => one.life === life);
  if (!wait || log.of(id).some((line) => line.life === life && line.at > wait.at)) return false;
  return [...new Set(log.childrenOf(id).map((child) => child.id))].every((child) => {
    const lines = log.of(child).filter((line) => line.life <= life);
    // The code of the parent runs for a moment when one of them has ended.
    if (lines.some(({ what, path }) => what === "end" && path === "z")) return false;
    const end = lines.find(({ what, at }) => what === "end" && at > wait.at);
    return end !== undefined && lines.some(({ what, at }) => what === "begin" && at > end.at);
  });
}
