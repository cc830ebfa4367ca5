import type { ObjectContext, RestatePromise } from "@restatedev/restate-sdk";
import { systemClock } from "../../../core/clock.ts";
import type { Walk } from "../../../engine/attempts/walk.ts";
import type { Program } from "../../../engine/contract/program.ts";
import { hasSameSteps } from "../../../engine/compare-steps.ts";
import {
  resolveTransition,
  type Execution,
  type ExecutionStatus,
  type ParkedBranch,
  type Position,
  type Transition,
} from "../../../engine/execution.ts";
import {
  fromRow,
  toCommandRow,
  toEntryRow,
  toWakeRow,
  type JournalRow,
  type StoredWake,
} from "../../../engine/runs/journal-row.ts";
import type { Decision } from "../../../engine/walk/decision.ts";
import type { Admissible } from "../../../engine/runs/groups.ts";
import { toText, type Value } from "../../../engine/walk/value.ts";
import { findTakes, type FoundTakes, type Take } from "../../../engine/runs/find-takes.ts";
import { forgetSolo } from "../former/solo.ts";
import { toMailboxKey } from "../mailbox/mailbox-key.ts";
import { toRecordsKey } from "../records.ts";
import { DriveAgenda, type DueInput } from "./drive-agenda.ts";
import { DriveAttempts, type AttemptInput } from "./drive-attempts.ts";
import type { DriveParts, Seat } from "./drive-host.ts";
import { RegisterLink, type SignalInput } from "./drive-link.ts";
import { DriveRows, type NextRow } from "./drive-rows.ts";
import type { LocalDrive } from "./drives.ts";
import type { DriveInput, RescueCause } from "../register/register-state.ts";
import { replayRows, withBytes } from "./replay-rows.ts";
import { hasMismatch, isReplaying } from "./replaying.ts";
import { loadRows } from "./rows.ts";
import type { Clearance } from "./suspects.ts";

/** The rows after which a drive hands over, so that Restate's journal of it stays short. */
const rowsPerDrive = 500;
/** The rows after which it starts no further attempts, so that it can. */
const mostRowsPerDrive = 1_000;

/**
 * One drive of one execution: from a start, a resume or a hand-over to the next suspension, end or hand-over.
 *
 * D1. The order of its inputs is the order of Restate's journal, so a repetition on another replica leads to the same rows.
 * D2. Each input is one row: decide → ask the register, if the status changes → store the row with its events → start.
 * D3. A transition of the walk is made by the register. If a command was first, it is on its way as the signal `t<epoch>`.
 * D4. The code of a handler whose attempt is over never continues, not even `finally`: `release` is called by a signal.
 * D5. It runs on the code that it began with. On any other code it is ended, before Restate's journal is replayed.
 * D6. It hands over only with nothing in flight: results belong to the drive that started their attempts.
 * D7. What ends waits is one row for each of them. While it only waits for a time, it has no slot.
 * D8. Events, and waits whose time has come, count in the order of their times (`countsBefore`), also if they are seen later.
 */
export class Drive implements LocalDrive, Admissible {
  readonly execution: Execution;
  readonly #context: ObjectContext;
  readonly #parts: DriveParts;
  readonly #input: DriveInput;
  readonly #link: RegisterLink;
  readonly #rows: DriveRows;
  readonly #walk: Walk;
  readonly #attempts: DriveAttempts;
  readonly #agenda: DriveAgenda;
  readonly #isRepeated: boolean;
  /** Of a repeated attempt: asked for when its code runs for the first time, and ended with the next row. */
  #clearance: Promise<Clearance> | undefined;
  #command!: RestatePromise<SignalInput>;
  #watch!: RestatePromise<SignalInput>;
  /** Undefined until a branch waits for an event. */
  #offer: RestatePromise<SignalInput> | undefined;
  /** A command was before a transition of the walk. Its row is the next one. */
  #isPreceded = false;
  #firstRow = 0;
  #seat: Seat | undefined;
  #isResting = false;
  /** Its code waits for other executions. */
  #isLent = false;
  #isReleased = false;
  /** The result of an attempt is on its way to Restate. */
  #isStoring = false;

  /** Runs a drive. Rejects without a call of the context when this replica has other code than the drive began with. */
  static async run(context: ObjectContext, parts: DriveParts, input: DriveInput): Promise<void> {
    const { host } = parts;
    const { execution, failsOnCrash = false } = input;
    const link = new RegisterLink(context, parts);
    const rescue = (cause: RescueCause): void => host.rescue({ gone: link.invocation, cause }, execution.id);
    const program = await host.programOf(execution);
    if (!program || !hasSameSteps(execution.steps, program.steps)) {
      rescue("code");
      throw new Error(`This replica has other code for workflow ${execution.workflowId} than this drive began with`);
    }
    const isRepeated = isReplaying(context);
    if (isRepeated) host.retried();
    if (failsOnCrash && isRepeated) {
      rescue("restart");
      throw new Error(`Execution ${execution.id} was interrupted`);
    }
    return new Drive(context, parts, input, { program, link, isRepeated }).#run();
  }

  private constructor(
    context: ObjectContext,
    parts: DriveParts,
    input: DriveInput,
    { program, link, isRepeated }: { program: Program; link: RegisterLink; isRepeated: boolean },
  ) {
    const { host } = parts;
    this.#context = context;
    this.#parts = parts;
    this.#input = input;
    this.#link = link;
    this.#isRepeated = isRepeated;
    this.execution = input.execution;
    this.#rows = new DriveRows(context, host, input);
    this.#walk = program.createWalk(input.execution, {
      readRow: (row) => this.#rows.readText(row),
      publishLive: (event) => host.publishLive(event),
      clock: systemClock,
      slot: { lend: () => this.#lend(), regain: () => this.#regain() },
      openRecords: (key) => host.openRecords(input.execution, key),
    });
    this.#attempts = new DriveAttempts({ context, walk: this.#walk, mayRun: () => this.#mayRun() });
    this.#agenda = new DriveAgenda(context, (key) => this.#walk.isWaitingFor(key));
  }

  async #run(): Promise<void> {
    const { host } = this.#parts;
    const { attemptCompletedSignal } = this.#context.request();
    attemptCompletedSignal.addEventListener("abort", () => this.#onAttemptCompleted(), { once: true });
    const { execution, epoch, commands, isNew = false } = this.#input;
    forgetSolo(this.#context, this.#input);
    const stored = isNew ? [] : await loadRows(this.#context, host, { id: execution.id, epoch });
    this.#seat = host.enter(this);
    const mismatch = replayRows(stored, commands, this.#walk, {
      keep: (row) => this.#rows.keep(row),
      add: (row) => this.#rows.add(row),
      plan: (decision) => this.#plan(decision),
    });
    // The steps are the same, and the code in them leads elsewhere: the drive after this one says so.
    if (mismatch !== undefined) this.#link.handOver({ cause: "code" });
    else await this.#drive(stored.length === 0);
    this.release(moved);
  }

  async #drive(isNew: boolean): Promise<void> {
    this.#firstRow = this.#rows.count;
    if (this.#rows.status !== "running") this.#attempts.suspend();
    if (isNew && (await this.#take(undefined))) return;
    this.#listen();
    this.#watch = this.#link.watch();
    if (!isNew && !this.#agenda.isEmpty) this.#agenda.advance(await this.#context.date.now());
    for (const { epoch, next, takes } of this.#input.commands) {
      if (epoch <= this.#rows.epoch) continue;
      if (await this.#onCommand(next, takes)) return;
    }
    if (!isNew) await this.#listenFor(this.#walk.parkedBranches());
    const { RestatePromise } = this.#parts.sdk;
    for (;;) {
      const made = this.#rows.count - this.#firstRow;
      const isRunning = this.#rows.status === "running";
      if (made >= rowsPerDrive && isRunning && this.#attempts.awaited().length === 0) return this.#link.handOver();
      if (made < mostRowsPerDrive) this.#attempts.launch();
      const awaited = this.#attempts.awaited();
      if (awaited.length === 0 && !isRunning) {
        if (this.#rows.status !== "suspended" || (await this.#link.leave(this.#rows.epoch))) return;
      }
      // While it is suspended from outside, or about to be, no wait ends.
      const mayWake = isRunning && !this.#isPreceded;
      const due = mayWake ? this.#agenda.next() : undefined;
      if (awaited.length > 0) this.#acquireSlot();
      else if (due) this.#releaseSlot();
      const input = await RestatePromise.race([
        this.#command,
        this.#watch,
        ...(this.#offer && mayWake ? [this.#offer] : []),
        ...(due ? [due] : []),
        ...awaited,
      ]);
      if (await this.#on(input)) return;
    }
  }

  /** Handles one input. Returns whether the drive ends. */
  async #on(input: SignalInput | DueInput | AttemptInput): Promise<boolean> {
    if ("command" in input) {
      if (await this.#onCommand(input.command)) return true;
      await this.#listenFor(this.#walk.parkedBranches());
      return false;
    }
    if ("dueAt" in input) return this.#onDue(input);
    if ("isOffered" in input) return this.#takeEvents();
    if ("watch" in input) {
      this.#watch = this.#link.watch();
      this.#rows.watch(input.watch);
      return false;
    }
    const ended = this.#attempts.take(input);
    if (!ended) return false;
    if (ended.result.hasRecords) this.#clearRecords(ended.plan.key);
    this.#isStoring = true;
    const hasEnded = await this.#take(toEntryRow(this.#rows.count, ended.plan.key, this.#rows.toKept(ended.result)));
    this.#isStoring = false;
    return hasEnded;
  }

  /** The result of the attempt is in Restate's journal: what it has recorded before is not needed. */
  #clearRecords(key: string): void {
    const { names, calls } = this.#parts;
    const target = { service: names.records, key: toRecordsKey(this.execution, key), method: "clear" };
    calls.tell(this.#context, target, null);
  }

  async #onCommand(command: Transition, takes?: readonly Take[]): Promise<boolean> {
    const epoch = this.#rows.epoch + 1;
    this.#isPreceded = false;
    this.#agenda.advance(command.at);
    const isWake = command.to === "running" && command.isWake === true;
    const hasEnded = isWake ? await this.#onWake(command, takes) : await this.#takeCommand(command);
    if (hasEnded) return true;
    this.#link.acknowledge(epoch);
    this.#listen();
    if (command.to === "running") this.#attempts.resume();
    else this.#attempts.suspend();
    return false;
  }
  #takeCommand(command: Transition): Promise<boolean> {
    return this.#take(toCommandRow(this.#rows.count, this.#rows.epoch + 1, command), command);
  }
  /** The register has continued a suspended execution: by events, or because the time of a wait has come. */
  #onWake(command: Transition, takes: readonly Take[] = []): Promise<boolean> {
    const { at } = command;
    return takes.length > 0 ? this.#endInOrder(takes, at, command) : this.#endDue(at, command);
  }

  /** The time of an attempt or of a wait has come. */
  async #onDue(due: DueInput): Promise<boolean> {
    this.#agenda.woke(due);
    const now = Math.max(await this.#context.date.now(), due.dueAt);
    this.#agenda.advance(now);
    this.#attempts.plan(this.#agenda.takeStarts(now));
    return this.#agenda.hasDueWaits(now) && this.#endDue(now);
  }
  /** Ends the waits whose time has come. Events that came before count first. */
  async #endDue(now: number, command?: Transition): Promise<boolean> {
    const mayHaveEvents = this.#walk.parkedBranches().some(({ event }) => event);
    const { takes } = mayHaveEvents ? await this.#findEvents() : { takes: [] };
    if (takes.length > 0) return this.#endInOrder(takes, now, command);
    const waits = this.#agenda.takeWaits(now);
    if (waits.length > 0) return this.#endWaits(waits, now, command);
    return command ? this.#takeCommand(command) : false;
  }
  /** Ends waits at the same moment. */
  #endWaits(waits: readonly ParkedBranch<Value>[], at: number, command?: Transition): Promise<boolean> {
    const [last, ...others] = waits.toReversed();
    for (const { key } of others.toReversed()) this.#join({ key: key, at, isJoined: true });
    return this.#take(toWakeRow(this.#rows.count, { key: last!.key, at }), command);
  }
  #join(wake: StoredWake): void {
    const row = toWakeRow(this.#rows.count, wake);
    this.#rows.keep(row);
    const decision = this.#walk.next(fromRow(row));
    this.#plan(decision);
    this.#rows.store(this.#rows.toNext(row, decision.events, []), []);
  }

  /** Looks for events that end waits of this execution. */
  async #takeEvents(): Promise<boolean> {
    this.#offer = this.#link.offer();
    for (;;) {
      const { at, takes, isCut } = await this.#findEvents();
      if (takes.length > 0 && (await this.#endInOrder(takes, at))) return true;
      if (!isCut || this.#isPreceded) return false;
    }
  }
  #findEvents(): Promise<FoundTakes & { readonly at: number }> {
    const { execution } = this;
    return this.#context.run("events", async () => {
      const taker = { execution, walk: this.#walk, hasTaken: (id: string) => this.#rows.takenEvents.has(id) };
      return { ...(await findTakes(this.#parts.host.readerOf(execution), taker)), at: Date.now() };
    });
  }
  /** Ends waits by events, and those whose time came before, in the order of their times (D8). The next look follows. */
  async #endInOrder(takes: readonly Take[], at: number, command?: Transition): Promise<boolean> {
    let first = command;
    for (const take of takes) {
      if (this.#isPreceded || !this.#walk.isWaitingFor(take.key)) continue;
      const waits = this.#agenda.takeWaits(at, { key: take.key, at: take.receivedAt });
      if (waits.length > 0) {
        if (await this.#endWaits(waits, at, first)) return true;
        first = undefined;
      }
      if (this.#isPreceded || !this.#walk.isWaitingFor(take.key)) continue;
      if (await this.#take(toWakeRow(this.#rows.count, { ...take, at }), first)) return true;
      first = undefined;
    }
    return first ? this.#takeCommand(first) : false;
  }
  /** Lets the mailboxes of branches that wait for events tell of them. */
  async #listenFor(branches: readonly ParkedBranch<Value>[]): Promise<void> {
    const mailboxes = new Set(branches.flatMap(({ event }) => (event ? toMailboxKey(event) : [])));
    if (mailboxes.size === 0 || this.#rows.status !== "running") return;
    this.#offer ??= this.#link.offer();
    this.#link.listen([...mailboxes]);
  }

  #listen(): void {
    this.#command = this.#link.command(this.#rows.epoch + 1);
  }

  /** Decides about an input and stores its row. Returns whether the drive ends: it has made a transition. */
  async #take(row: JournalRow | undefined, command?: Transition): Promise<boolean> {
    if (row) this.#rows.keep(row);
    if (row) this.#agenda.advance(row.at);
    const decision = this.#walk.next(row && fromRow(withBytes(row)));
    const { events, transition, parks } = decision;
    this.#plan(decision);
    const toRow = (transitions: readonly Transition[]): NextRow => {
      return { stored: this.#rows.toNext(row, events, transitions), transitions };
    };
    const commands = command ? [command] : [];
    void this.#clearance?.then(({ end }) => end());
    if (!transition) {
      const { stored, transitions } = toRow(commands);
      this.#rows.store(stored, transitions);
      await this.#listenFor(parks);
      return false;
    }
    const next = resolveTransition(transition, (value) => toText(value, (number) => this.#rows.readText(number)));
    const { stored, transitions } = toRow([...commands, next]);
    const made = { stored: { ...stored, moved: true }, transitions };
    const onMade = (): void => this.#walk.confirmTransition();
    const failure = "error" in next ? this.#walk.failedStep(next.error) : undefined;
    const isMade = await this.#rows.settle(this.#link, next, { made, notMade: toRow(commands), onMade, failure });
    this.#isPreceded = !isMade;
    return isMade;
  }

  #plan(decision: Decision): void {
    this.#agenda.add(decision);
    this.#attempts.plan(decision.starts.filter(({ delay }) => delay === 0));
  }

  #acquireSlot(): void {
    if (!this.#isResting) return;
    this.#isResting = false;
    this.#seat?.enter();
  }
  /** Called while the drive only waits for a time. */
  #releaseSlot(): void {
    if (!this.#attempts.rest()) return;
    this.#isResting = true;
    this.#seat?.rest();
  }

  #lend(): void {
    this.#isLent = true;
    void this.#clearance?.then(({ pass }) => pass());
    this.#seat?.lend();
  }
  async #regain(): Promise<void> {
    await this.#seat?.regain();
    this.#isLent = false;
  }

  /** Whether the code of this drive may run here. After a crash it may have to wait for its turn, or may not run again. */
  #mayRun(): Promise<boolean> | boolean {
    if (this.#parts.host.isClosing) return false; // another replica starts it
    if (!this.#isRepeated) return true;
    this.#clearance ??= this.#parts.host.clear(this);
    return this.#clearance.then(({ mayRun }) => mayRun);
  }

  admit(): void {
    this.#attempts.admit();
  }

  /** A child is admitted before executions that nobody inside waits for. */
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
    void this.#clearance?.then(({ end }) => end());
    this.#seat?.leave();
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
    return (this.#attempts.isBusy && !this.#isLent) || this.#isStoring;
  }
  get isReleased(): boolean {
    return this.#isReleased;
  }
  get hasStarted(): boolean {
    // The attempt before a repeated one is not counted yet: none of this one's code has run.
    return this.#attempts.hasStarted && (!this.#isRepeated || this.#clearance !== undefined);
  }
}

const moved = "The execution is no longer driven by this process";
