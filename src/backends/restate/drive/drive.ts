import type { ObjectContext, RestatePromise } from "@restatedev/restate-sdk";
import { systemClock } from "../../../core/clock.ts";
import type { Walk } from "../../../engine/attempts/walk.ts";
import { hasSameSteps } from "../../../engine/compare-steps.ts";
import type { Program } from "../../../engine/contract/program.ts";
import type { Execution, ExecutionStatus, Position, Transition } from "../../../engine/execution.ts";
import type { Take } from "../../../engine/runs/find-takes.ts";
import type { Admissible } from "../../../engine/runs/groups.ts";
import type { Run } from "../../../engine/runs/run.ts";
import { notStarted } from "../../../engine/runs/run-port.ts";
import { forgetSolo } from "../former/solo.ts";
import { DriveAttempts, type AttemptInput } from "./drive-attempts.ts";
import { DriveClock, type DueInput } from "./drive-clock.ts";
import type { ReplicaServiceParts } from "../replica.ts";
import { RegisterLink, type SignalInput } from "./drive-link.ts";
import { DrivePort } from "./drive-port.ts";
import { DriveRows } from "./drive-rows.ts";
import type { LocalDrive } from "./drives.ts";
import type { DriveInput, RescueCause } from "../register/register-state.ts";
import { replayRows } from "./replay-rows.ts";
import { hasMismatch, isReplaying } from "./replaying.ts";
import { loadRows } from "./rows.ts";

/** The rows after which a drive hands over: Restate's journal stays short. */
const rowsPerDrive = 500;
/** The rows after which it starts no attempts, in order to hand over. */
const maxRowsPerDrive = 1_000;

/**
 * One drive of one execution, from a start, a resume or a hand-over to the next suspension, end or hand-over: the backend for
 * its run, inside of a Restate handler.
 *
 * D1. The order of its inputs is the order of Restate's journal, so a repetition on another replica leads to the same rows.
 * D2. What the run has asked for is answered before the next input: outcomes and events, in order.
 * D3. A transition of the walk is made by the register. If a command was first, it is on its way as the signal `t<epoch>`.
 * D4. The code of a handler whose attempt is over never continues, not even `finally`: `release` is called by a signal.
 * D5. It runs on the code that it began with. On any other code it is ended, before Restate's journal is replayed.
 * D6. It hands over only with nothing in flight: results belong to the drive that started their attempts.
 * D7. While it only waits for a time, it has no slot.
 */
export class Drive implements LocalDrive, Admissible {
  readonly execution: Execution;
  readonly #context: ObjectContext;
  readonly #parts: ReplicaServiceParts;
  readonly #input: DriveInput;
  readonly #link: RegisterLink;
  readonly #rows: DriveRows;
  readonly #clock: DriveClock;
  readonly #walk: Walk;
  readonly #attempts: DriveAttempts;
  #port!: DrivePort;
  #run!: Run;
  #isReleased = false;

  /** Runs a drive. Rejects without a call of the context when this replica has other code than the drive began with. */
  static async run(context: ObjectContext, parts: ReplicaServiceParts, input: DriveInput): Promise<void> {
    const { host } = parts;
    const { execution, failsOnCrash = false } = input;
    const link = new RegisterLink(context, parts.calls);
    const rescue = (cause: RescueCause): void =>
      host.interruptions.rescue({ gone: link.invocation, cause }, execution.id);
    const program = await host.programs.find(execution);
    if (!program || !hasSameSteps(execution.steps, program.steps)) {
      rescue("code");
      throw new Error(`This replica has other code for workflow ${execution.workflowId} than this drive began with`);
    }
    const isRepeated = isReplaying(context);
    if (isRepeated) host.interruptions.retried();
    if (failsOnCrash && isRepeated) {
      rescue("restart");
      throw new Error(`Execution ${execution.id} was interrupted`);
    }
    return new Drive(context, parts, input, { program, link, isRepeated }).#start();
  }

  private constructor(
    context: ObjectContext,
    parts: ReplicaServiceParts,
    input: DriveInput,
    { program, link, isRepeated }: { program: Program; link: RegisterLink; isRepeated: boolean },
  ) {
    const { host } = parts;
    const { execution } = input;
    this.#context = context;
    this.#parts = parts;
    this.#input = input;
    this.#link = link;
    this.execution = execution;
    this.#clock = new DriveClock(context, execution.startAt);
    this.#rows = new DriveRows(context, host, input);
    this.#walk = program.createWalk(execution, {
      readRow: (row) => this.#rows.readText(row),
      publishLive: (event) => host.readers.publish(event.executionId, event),
      clock: systemClock,
      slot: { lend: () => this.#attempts.lend(), regain: () => this.#attempts.regain() },
      openRecords: (key) => host.openRecords(execution, key),
    });
    this.#attempts = new DriveAttempts({ context, walk: this.#walk, host, drive: this, isRepeated });
  }

  async #start(): Promise<void> {
    const { host } = this.#parts;
    const { attemptCompletedSignal } = this.#context.request();
    attemptCompletedSignal.addEventListener("abort", () => this.#onAttemptCompleted(), { once: true });
    const { execution, epoch, commands, isNew = false } = this.#input;
    forgetSolo(this.#context, this.#input);
    const stored = isNew ? [] : await loadRows(this.#context, host, { id: execution.id, epoch });
    for (const row of stored) this.#rows.add(row);
    const parts = { ...this.#parts, context: this.#context, execution, clock: this.#clock };
    const own = { link: this.#link, rows: this.#rows, walk: this.#walk, attempts: this.#attempts };
    this.#port = new DrivePort({ ...parts, ...own });
    this.#run = this.#port.run;
    this.#attempts.enter();
    // The steps are the same, and the code in them leads elsewhere: the drive after this one says so.
    if (stored.length > 0 && (await replayRows(this.#run, stored, commands)) !== undefined)
      this.#link.handOver({ cause: "code" });
    else await this.#drive(stored.length === 0);
    this.release(moved);
  }

  /** Hands inputs to the run, one at a time, until the drive is over. */
  async #drive(isNew: boolean): Promise<void> {
    const { RestatePromise } = this.#parts.sdk;
    const { answers } = this.#port;
    const firstRow = this.#rows.count;
    this.#attempts.setSuspended(this.#rows.status !== "running");
    if (isNew) this.#run.begin();
    else await this.#continue();
    const commands = [...this.#input.commands];
    for (;;) {
      const answer = answers.shift();
      await answer?.();
      if (this.#port.isOver) return;
      if (answer || this.#dropLost()) continue;
      this.#link.acknowledge(this.#rows.epoch);
      const command = commands.shift();
      if (command && command.epoch > this.#rows.epoch) this.#applyCommand(command.next, command.takes);
      if (command) continue;
      const made = this.#rows.count - firstRow;
      const isRunning = this.#rows.status === "running";
      if (made >= rowsPerDrive && isRunning && !this.#attempts.hasStarted) return this.#link.handOver();
      if (made < maxRowsPerDrive) this.#attempts.launch();
      if (this.#port.isIdle) this.#attempts.rest();
      await this.#on(await RestatePromise.race(this.#sources()));
    }
  }

  /** Continues from the rows. Commands that they do not have follow. */
  async #continue(): Promise<void> {
    if (this.#run.hasTimes) await this.#clock.read();
    this.#port.listenFor(this.#walk.parkedBranches());
    if (!this.#input.commands.some(({ epoch }) => epoch > this.#rows.epoch)) this.#run.time();
  }

  #sources(): RestatePromise<SignalInput | DueInput | AttemptInput>[] {
    const { times } = this.#port;
    return [
      ...this.#link.signals(this.#rows.epoch + 1),
      ...(times ? [this.#clock.until(times)] : []),
      ...this.#attempts.awaited(),
    ];
  }

  async #on(input: SignalInput | DueInput | AttemptInput): Promise<void> {
    if ("plan" in input) {
      this.#attempts.ended(input);
      const { plan, result } = input;
      if (result !== notStarted) this.#clock.advance(result.at);
      return this.#run.end(plan, result);
    }
    if ("dueAt" in input) {
      await this.#clock.woke(input);
      return this.#run.time();
    }
    this.#link.took(input);
    if ("command" in input) this.#applyCommand(input.command);
    else if ("watch" in input) this.#rows.watch(input.watch);
    else this.#run.news();
  }

  /** Follows the register, which has made a transition. */
  #applyCommand(next: Transition, takes: readonly Take[] = []): void {
    this.#clock.advance(next.at);
    if (next.to !== "running" || !next.isWake) return this.#run.command(next);
    this.#port.wake(next, takes);
  }

  /** Tells the run of the attempts that nobody waits for any more. Returns whether there are any. */
  #dropLost(): boolean {
    const lost = this.#attempts.takeLost(this.#run.mayStart);
    for (const plan of lost) this.#run.end(plan, notStarted);
    return lost.length > 0;
  }

  admit(): void {
    this.#attempts.admit();
  }

  /** Children go first: their parents hold slots. */
  get isFirst(): boolean {
    return this.execution.parent !== undefined;
  }

  #onAttemptCompleted(): void {
    if (this.#isReleased) return;
    this.#parts.host.interrupted(this, hasMismatch(this.#context.request()));
    this.release(moved);
  }

  release(reason: string): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#attempts.release();
    this.#walk.release(reason);
  }

  get invocation(): string {
    return this.#link.invocation;
  }
  get status(): ExecutionStatus {
    return this.#rows.status;
  }
  get position(): Position {
    return this.#walk.position();
  }
  get isBusy(): boolean {
    return this.#attempts.isBusy || this.#rows.isSettling;
  }
  get isReleased(): boolean {
    return this.#isReleased;
  }
  get hasStarted(): boolean {
    return this.#attempts.hasBegun;
  }
}

const moved = "The execution is no longer driven by this process";
