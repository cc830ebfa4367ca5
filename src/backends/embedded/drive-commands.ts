import { countStart } from "../../engine/runs/count-states.ts";
import type { ServeError } from "../../core/error.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { Execution, ExecutionState, Transition } from "../../engine/execution.ts";
import type { ForkSource } from "../../engine/fork.ts";
import type { Reservation } from "../../engine/runs/groups.ts";
import { toCommandChange, type Change } from "../../engine/runs/run-port.ts";
import { isTurn } from "../../engine/turn-execution.ts";
import { Drive, type Request } from "./drive.ts";
import { unavailable } from "./file/sqlite-error.ts";
import type { Drives } from "./drives.ts";
import type { Commit, StoredState } from "./store/stored-state.ts";

interface CommandOptions {
  /** The drive has nothing in flight: if the store cannot be written, it is forgotten again. */
  readonly isJustLoaded?: boolean;
  /** The drive is handed over when the transition is written. */
  readonly wait?: ((drive: Drive) => void) | undefined;
}

interface BeginParts extends Pick<Reservation, "release"> {
  readonly wait: ((drive: Drive) => void) | undefined;
  readonly source: ForkSource | undefined;
}

/**
 * Starts a new execution, a fork with the results that it copies. Resolves to false when there is one with this id already.
 * `release` gives a reserved place back. With `wait`, the drive is released when the start is written, and handed over.
 */
export function beginDrive(
  drives: Drives,
  execution: Execution,
  program: Program,
  { release, wait, source }: BeginParts,
): Promise<boolean> {
  const state: StoredState = { number: drives.store.newNumber(), execution, status: "running", epoch: 0 };
  const drive = new Drive(state, program, drives);
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const end = (): void => {
    release();
    drive.release("The execution was not started");
  };
  const request: Request = {
    done: () => {
      if (!isTurn(execution)) countStart(drives.metrics, execution.workflowId);
      // A workflow without steps is over.
      if (wait && drive.run.decided.status === "running") drives.handOver(drive, wait);
      else drives.add(drive);
      release();
      if (!isTurn(execution)) drives.publisher.changes.publish({ execution, status: "running", epoch: 0 });
      resolve(true);
    },
    lost: () => {
      end();
      resolve(false);
    },
    fail: (error) => {
      end();
      reject(drives.toAnswer(error));
    },
    stalled: (cause) => {
      end();
      reject(unavailable("Storage cannot be written: nothing was started", cause));
      return true;
    },
  };
  drive.run.begin(source, request);
  if (wait) markWaiting(drives, drive);
  return promise;
}

/**
 * Makes a transition of an execution that has a drive. Resolves to the new state, or to false when another transition was first.
 */
export function commandDrive(
  drives: Drives,
  drive: Drive,
  next: Transition,
  { isJustLoaded = false, wait }: CommandOptions = {},
): Promise<ExecutionState | false> {
  const hint = isJustLoaded ? "nothing was changed" : "check the state of the execution";
  const refused = (cause: unknown): ServeError => unavailable(`Storage cannot be written: ${hint}`, cause);
  const { stallCause } = drives.writer;
  if (stallCause && !isJustLoaded) throw refused(stallCause);
  const { promise, resolve, reject } = Promise.withResolvers<ExecutionState | false>();
  drive.run.command(next, {
    done: (commit) => {
      if (wait && !drive.isChanging) drives.handOver(drive, wait); // otherwise it ends, or waits with its drive
      resolve(commit.states[0]!);
    },
    lost: () => {
      // The drive was released because a change before this one could not be written.
      const { status, epoch } = drives.store.state(drive.execution.id) ?? {};
      const isOpen = status === "running" || status === "suspended";
      if (drive.isReleased && isOpen && epoch === drive.committed.epoch)
        return reject(refused(new Error("The drive was released")));
      // The execution ended while it was loaded.
      drives.forget(drive);
      resolve(false);
    },
    fail: (error) => {
      drives.failed(drive, error);
      reject(drives.toAnswer(error));
    },
    stalled: (cause) => {
      if (isJustLoaded) drives.forget(drive);
      reject(refused(cause));
      return isJustLoaded;
    },
  });
  if (wait) markWaiting(drives, drive);
  return promise;
}

/** Makes a transition of an execution that has no drive: only its event follows from it. `onCommit` is called before it is published. */
export async function commandUndriven(
  drives: Drives,
  state: StoredState,
  next: Transition,
  onCommit?: () => void,
): Promise<ExecutionState | false> {
  const { number, execution, epoch } = state;
  const { store } = drives;
  const row = store.newRow();
  const work = (): { change: Change; commit: Commit } | undefined => {
    store.waits.remove(number);
    const change = toCommandChange(row, next, { epoch, seq: store.journals.lastSeq(number) + 1 });
    const commit = store.save(state, change, noRow);
    return commit && { change, commit };
  };
  const saved = await drives.request(work, "nothing was changed", (made) => {
    onCommit?.();
    if (!made) return;
    drives.slots.leavePlace(number);
    const loaded = drives.get(execution.id);
    if (loaded?.committed.epoch === epoch) drives.forget(loaded); // it does not know this transition
    drives.publisher.publish(execution.id, made.change, made.commit);
  });
  return saved ? saved.commit.states[0]! : false;
}

/** Marks an execution that waits, in the transaction of its start or resume. */
function markWaiting({ store, writer }: Drives, { number }: Drive): void {
  void writer.runOrPass(() => store.processes.startWaiting(number)).catch(() => {}); // only a count of crashes depends on it
}

const noRow = (): undefined => undefined;
