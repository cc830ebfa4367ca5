import { withIds } from "../../core/log.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { Transition } from "../../engine/execution.ts";
import { agentOf, isTurn } from "../../engine/turn-execution.ts";
import type { EngineParts } from "./engine-parts.ts";
import type { InterruptedExecution } from "./store/tables/process-table.ts";
import type { WaitingExecution } from "./waiting-executions.ts";
import { crashed, interrupted, isAlone, suspectMs, toVerdict } from "../../engine/rules/crashes.ts";

interface RecoveryParts extends EngineParts {
  /** Keeps the place of a turn in its conversation until it is opened or ended. */
  readonly keepPlace: (id: string) => void;
}

/**
 * Continues the executions that were running when the last process ended, in the order of their start.
 *
 * A *suspect* is an execution that two crashes in a row have interrupted at the same row.
 * RE1. Suspects start one at a time: the next one when the last one has made a row or left, waits for other executions (they
 *     may be suspects as well), or after `suspectMs`. The first one waits in the same way for executions that one crash has
 *     interrupted.
 * RE2. That a suspect has started is durable before its code runs. If the process dies, only the suspect that started last is
 *     suspended, of those that run and have not made a row.
 * RE3. The others start first the next time, each alone: without `suspectMs`.
 * RE4. A suspect keeps its place in its group until its turn comes.
 */
export class Recovery {
  readonly #parts: RecoveryParts;
  readonly #found: WaitingExecution[] = [];
  /** Resolves when the executions that one crash has interrupted have made a row, or left. */
  #othersChanged: Promise<unknown> = Promise.resolve();
  #isFinished = false;

  constructor(parts: RecoveryParts) {
    this.#parts = parts;
  }

  /** Finds the executions. They are not queued yet. */
  async find(): Promise<void> {
    const { store, drives, waiting, keepPlace } = this.#parts;
    const all: InterruptedExecution[] = [];
    for await (const page of store.processes.leftRunning()) {
      all.push(...page);
      if (drives.isClosing) return;
    }
    // One that has a drive was resumed meanwhile.
    for (const found of all) {
      if (drives.get(found.id)) continue;
      this.#found.push(waiting.add(found));
      if (isTurn(found)) keepPlace(found.id);
    }
  }

  /** Resolves when every execution is loaded, queued, suspended or ended. Without programs it continues none. */
  async start(programOf: ((workflowId: string) => Program | undefined) | undefined): Promise<void> {
    const { drives, waiting, logger } = this.#parts;
    if (drives.isClosing) return;
    const suspects = programOf ? await this.#enterAll(programOf) : [];
    if (drives.isClosing) return;
    drives.slots.open();
    await waiting.loaded();
    this.#isFinished = true;
    this.#startSuspects(suspects).catch((error: unknown) => {
      if (!drives.isClosing)
        logger.error("Executions that crashed twice could not be continued: the next start tries again", {
          error,
        });
    });
  }

  /** Queues the executions for their slots, and returns the suspects. */
  async #enterAll(programOf: (workflowId: string) => Program | undefined): Promise<WaitingExecution[]> {
    const { drives, waiting, logger } = this.#parts;
    waiting.open(programOf);
    const all = this.#found.splice(0);
    const transitions: Promise<unknown>[] = [];
    const toFailure = (message: string): Transition => {
      return { at: drives.clock.now(), to: "error", error: { message, shown: true } };
    };
    const end = (left: WaitingExecution, next: Transition): void => {
      const made = waiting.command(left.found.id, next);
      transitions.push(made.catch((error: unknown) => waiting.giveUp(left, error)));
    };
    const {
      crashing = [],
      failing = [],
      suspects = [],
      rest = [],
    } = Object.groupBy(all, ({ found }) => {
      const verdict = toVerdict(found.crashes);
      if (verdict === "suspend") return "crashing";
      // One that only waited for its turn was not interrupted.
      if (!found.isWaiting && programOf(found.workflowId)?.recovery === "fail") return "failing";
      return verdict === "suspect" ? "suspects" : "rest";
    });
    const interruptedOnce = rest.filter(({ found }) => found.crashes > 0);
    this.#othersChanged = Promise.all(interruptedOnce.map(({ found }) => drives.nextChange(found.id)));
    for (const left of failing) end(left, toFailure(interrupted));
    for (const suspect of suspects) if (suspect.group) drives.slots.hold(suspect, suspect.group);
    for (const left of rest) waiting.enter(left);
    for (const left of crashing) {
      if (isTurn(left.found)) {
        const { id: executionId, workflowId } = left.found;
        withIds(logger, { executionId }).warn(`A turn of agent ${agentOf(workflowId)} ended: ${crashed.toLowerCase()}`);
        end(left, toFailure(crashed));
        continue;
      }
      const next = await waiting
        .toSuspension(left.found.id, crashed)
        .catch((error: unknown) => waiting.giveUp(left, error));
      if (next) end(left, next);
    }
    await Promise.all(transitions);
    return suspects.toSorted((one, other) => other.found.crashes - one.found.crashes); // RE3
  }

  get isFinished(): boolean {
    return this.#isFinished;
  }

  async #startSuspects(suspects: readonly WaitingExecution[]): Promise<void> {
    const { drives, store, waiting } = this.#parts;
    if (suspects.length > 0) await Promise.race([this.#othersChanged, this.#suspectTimeout()]);
    for (const [index, suspect] of suspects.entries()) {
      const { id, number, crashes } = suspect.found;
      if (drives.isClosing) return;
      if (!waiting.has(id)) continue;
      await drives.writer.request(() => store.processes.isolate(number, index + 1));
      await waiting.whenIdle(suspect);
      if (drives.isClosing) return;
      if (!waiting.has(id)) continue;
      const changed = drives.nextChange(id);
      const admitted = suspect.admission();
      if (isTurn(suspect.found)) suspect.admit();
      else drives.slots.enter(suspect, suspect.weight); // it has its place in its group
      await admitted;
      await suspect.loading;
      if (!drives.get(id)) continue;
      await (isAlone(crashes) ? changed : Promise.race([changed, this.#suspectTimeout()]));
    }
  }

  #suspectTimeout(): Promise<void> {
    return new Promise((resolve) => void this.#parts.drives.clock.setTimeout(resolve, suspectMs).unref());
  }
}
