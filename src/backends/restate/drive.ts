import type { ObjectContext, RestatePromise } from "@restatedev/restate-sdk";
import { newId } from "../../core/id.ts";
import type { JsonText } from "../../core/json.ts";
import type { Walk } from "../../engine/attempts/walk.ts";
import type { Program } from "../../engine/backend.ts";
import { findMismatch, hasSameSteps } from "../../engine/compare-steps.ts";
import { toTransitionEvent, type EventBody, type LiveEvent } from "../../engine/events.ts";
import {
  resolveTransition,
  type Execution,
  type ExecutionState,
  type ExecutionStatus,
  type Position,
  type Transition,
} from "../../engine/execution.ts";
import { fromRow, textOf, toCommandRow, toEntryRow, type JournalRow } from "../../engine/runs/journal-row.ts";
import type { Admissible } from "../../engine/runs/slots.ts";
import type { AttemptPlan, AttemptResult } from "../../engine/walk/decision.ts";
import { inputRow, toText } from "../../engine/walk/value.ts";
import type { Calls, ServiceNames } from "./calls.ts";
import type { LocalDrive } from "./drives.ts";
import type { DriveInput, MoveInput, MoveResult, WatchInput } from "./register-state.ts";
import { lastPosition, readRows, startedIn, toRowKey, type StoredRow } from "./rows.ts";
import type { RestateSdk } from "./sdk.ts";

/** The part of a replica that its drives use. */
export interface DriveHost {
  /** The most bytes of the input and all values of one execution. */
  readonly executionBytes: number;
  /** The code of an execution on this replica. Waits until the replica knows its workflows. */
  programOf(execution: Execution): Promise<Program | undefined>;
  /** Gives the drive a slot, now or later. Returns the function that gives it back. */
  enter(drive: LocalDrive & Admissible): () => void;
  /** A row and its transitions are in Restate's journal, or follow from it. */
  publish(id: string, row: StoredRow, states: readonly ExecutionState[]): void;
  publishLive(event: LiveEvent): void;
  /** Ends a drive that cannot continue, because its code is gone or it was interrupted; another one starts from the rows. */
  rescue(id: string, invocation: string, isInterrupted?: boolean): void;
}
export interface DriveParts {
  readonly sdk: RestateSdk;
  readonly names: ServiceNames;
  readonly calls: Calls;
  readonly host: DriveHost;
}

/** The result of an attempt that had no slot when its execution was suspended. */
interface NotStarted {
  readonly isNotStarted: true;
}

/** The next input of a drive. */
type Heard =
  | { readonly plan: AttemptPlan; readonly result: AttemptResult | NotStarted }
  | { readonly due: AttemptPlan }
  | { readonly command: Transition }
  | { readonly watch: WatchInput };

/**
 * One drive of one execution: from a start or a resume to the next suspension or end.
 *
 * D1. The order of its inputs is the order of Restate's journal, so a repetition on another replica leads to the same rows.
 * D2. Each input is one row: decide → ask the register, if the status changes → store the row with its events → start.
 * D3. A transition of the walk is made by the register. If a command was first, it is on its way as the signal `t<epoch>`.
 * D4. The code of a handler whose attempt is over never continues, not even `finally`: `release` is called by a signal.
 */
export class Drive implements LocalDrive, Admissible {
  readonly execution: Execution;
  readonly #context: ObjectContext;
  readonly #parts: DriveParts;
  readonly #input: DriveInput;
  /** Resolve when the drive has a slot, and when it is suspended before. */
  readonly #admitted = Promise.withResolvers<true>();
  #suspended = Promise.withResolvers<false>();
  readonly #texts = new Map<number, JournalRow>();
  /** The attempts to start, in order. */
  readonly #planned = new Set<AttemptPlan>();
  /** The attempts and retry delays that Restate knows of, by journal key. */
  readonly #attempts = new Map<string, RestatePromise<Heard>>();
  readonly #delays = new Map<string, RestatePromise<Heard>>();
  /** The attempts whose code runs here, until their result is taken. */
  readonly #running = new Set<string>();
  #walk!: Walk;
  #command!: RestatePromise<Heard>;
  #watch!: RestatePromise<Heard>;
  #watchers = 0;
  #watching: string[] = [];
  #rows = 0;
  #seq = 0;
  #bytes: number;
  #epoch = 0;
  #status: ExecutionStatus = "running";
  #leaveSlot = (): void => {};
  #isReleased = false;

  constructor(context: ObjectContext, parts: DriveParts, input: DriveInput) {
    this.#context = context;
    this.#parts = parts;
    this.#input = input;
    this.execution = input.execution;
    this.#bytes = Buffer.byteLength(input.execution.input);
  }

  async run(): Promise<void> {
    const { host } = this.#parts;
    const { execution } = this;
    const program = await host.programOf(execution);
    const { isRescue, isInterrupted, failsOnCrash } = this.#input;
    // Before any call of the context: Restate must not replay its journal on other code.
    if (!isRescue && (!program || !hasSameSteps(execution.steps, program.steps))) {
      host.rescue(execution.id, this.#invocation);
      throw new Error(`This replica has other code for workflow ${execution.workflowId} than this drive began with`);
    }
    if (failsOnCrash && !isInterrupted && (await this.#isRepeated())) {
      host.rescue(execution.id, this.#invocation, true);
      throw new Error(`Execution ${execution.id} was interrupted`);
    }
    const stored = await readRows(this.#parts.sdk, this.#context, 0, Infinity);
    if (isInterrupted) return this.#end(stored, { to: "error", error: { message: interrupted, shown: true } });
    if (!program) return this.#suspend(stored, `workflow ${execution.workflowId} was removed`);
    const mismatch = isRescue ? findMismatch(execution.steps, program.steps, startedIn(stored)) : undefined;
    if (mismatch !== undefined) return this.#suspend(stored, mismatch);
    this.#walk = program.createWalk(execution, {
      readRow: (row) => this.#readRow(row),
      publishLive: (event) => host.publishLive(event),
    });
    this.#leaveSlot = host.enter(this);
    this.#context.request().attemptCompletedSignal.addEventListener("abort", () => this.release(moved), { once: true });
    const difference = this.#replay(stored);
    if (difference === undefined) await this.#drive(stored.length === 0);
    else await this.#suspend(stored, difference);
    this.release(moved);
  }

  get #invocation(): string {
    return this.#context.request().id as unknown as string; // an id is a text with a brand
  }

  /** Whether an earlier attempt of this drive was interrupted. The drive then ends: other calls would not fit its journal. */
  async #isRepeated(): Promise<boolean> {
    const nonce = newId();
    return (await this.#context.run("nonce", () => nonce)) !== nonce;
  }

  async #drive(isNew: boolean): Promise<void> {
    if (isNew && (await this.#take(undefined))) return;
    this.#listen();
    this.#listenToWatchers();
    for (const { epoch, next } of this.#input.commands) {
      if (epoch <= this.#epoch) continue;
      if (await this.#obey(next)) return;
    }
    for (;;) {
      this.#launch();
      const awaited = this.#awaited();
      if (awaited.length === 0 && this.#status !== "running") {
        if (this.#status !== "suspended" || (await this.#leave())) return;
      }
      const { RestatePromise } = this.#parts.sdk;
      const heard = await RestatePromise.race([this.#command, this.#watch, ...awaited]);
      if (await this.#on(heard)) return;
    }
  }

  /** Handles one input. Returns whether the drive ends. */
  async #on(heard: Heard): Promise<boolean> {
    if ("command" in heard) return this.#obey(heard.command);
    if ("watch" in heard) {
      this.#listenToWatchers();
      const { awakeable, afterRow } = heard.watch;
      if (afterRow < this.#rows - 1) this.#context.resolveAwakeable(awakeable, null);
      else this.#watching.push(awakeable);
      return false;
    }
    if ("due" in heard) {
      this.#delays.delete(heard.due.key);
      this.#startAttempt(heard.due);
      return false;
    }
    const { plan, result } = heard;
    this.#attempts.delete(plan.key);
    this.#running.delete(plan.key);
    if ("isNotStarted" in result) {
      this.#planned.add(plan);
      return false;
    }
    return this.#take(toEntryRow(this.#rows, plan.key, this.#toKept(result)));
  }

  #obey(command: Transition): Promise<boolean> {
    const row = toCommandRow(this.#rows, this.#epoch + 1, command);
    return this.#take(row, command);
  }

  /** Decides about an input and stores its row. Returns whether the drive ends: it has made a transition. */
  async #take(row: JournalRow | undefined, command?: Transition): Promise<boolean> {
    if (row) this.#keep(row);
    const decision = this.#walk.next(row && fromRow(withBytes(row)));
    for (const plan of decision.starts) this.#planned.add(plan);
    const made: Transition[] = [];
    if (command) {
      made.push(command);
      this.#listenAfter(command);
    }
    const states = command ? [this.#toState(command)] : [];
    let isMade = false;
    if (decision.transition) {
      const next = resolveTransition(decision.transition, (value) => toText(value, (number) => this.#readRow(number)));
      isMade = await this.#move(next);
      if (isMade) {
        this.#walk.confirmTransition();
        this.#epoch++;
        this.#status = next.to;
        made.push(next);
        states.push(this.#toState(next));
      }
    }
    const own = made.filter(({ to }) => to !== "running").map(toTransitionEvent);
    this.#store(row, [...decision.events, ...own], isMade, states);
    return isMade;
  }

  #store(row: JournalRow | undefined, events: readonly EventBody[], isMade: boolean, states: ExecutionState[]): void {
    this.#seq += events.length;
    const stored: StoredRow = {
      number: this.#rows++,
      row,
      at: row?.at ?? this.execution.startAt,
      seq: this.#seq,
      events,
      status: this.#status,
      epoch: this.#epoch,
      ...(isMade && { moved: true }),
    };
    this.#context.set(toRowKey(stored.number), stored);
    for (const awakeable of this.#watching.splice(0)) this.#context.resolveAwakeable(awakeable, null);
    this.#parts.host.publish(this.execution.id, stored, states);
  }

  #toState(last: Transition): ExecutionState {
    return { execution: this.execution, status: this.#status, epoch: this.#epoch, last };
  }

  /** Walks over the stored rows. Returns the first mismatch: a row that this code does not lead to. */
  #replay(rows: readonly StoredRow[]): string | undefined {
    for (const { row, seq, status, epoch, moved: isMade } of rows) {
      if (row) this.#keep(row);
      const input = row && fromRow(withBytes(row));
      if (input && "key" in input && !this.#walk.isWaitingFor(input.key))
        return `the journal has a result for ${input.key} that this version does not produce`;
      const { starts, transition } = this.#walk.next(input);
      for (const plan of starts) this.#planned.add(plan);
      if (isMade && !transition)
        return `the stored status after ${row?.key ?? "the start"} is not the one that this version produces`;
      if (isMade) this.#walk.confirmTransition();
      this.#seq = seq;
      this.#status = status;
      this.#epoch = epoch;
    }
    this.#rows = rows.length;
    return undefined;
  }

  #keep(row: JournalRow): void {
    this.#texts.set(row.id, row);
    this.#bytes += Buffer.byteLength(row.body ?? "");
  }

  /** The result; an error in its place when its value would make the execution larger than allowed. */
  #toKept(result: AttemptResult): AttemptResult {
    const { executionBytes } = this.#parts.host;
    const text = "value" in result ? result.value : "suspended" in result ? result.suspended.data : undefined;
    if (text === undefined || this.#bytes + Buffer.byteLength(text) <= executionBytes) return result;
    const message = `The values of the execution take more than ${executionBytes} bytes (limits.executionBytes)`;
    return { at: result.at, error: { message, shown: true } };
  }

  #readRow(number: number): JsonText | undefined {
    return number === inputRow ? this.execution.input : textOf(this.#texts.get(number)!);
  }

  /** The attempts that a branch waits for; retry delays only while the execution runs. */
  #awaited(): RestatePromise<Heard>[] {
    const pending = [...this.#attempts, ...(this.#status === "running" ? this.#delays : [])];
    return pending.filter(([key]) => this.#walk.isWaitingFor(key)).map(([, promise]) => promise);
  }

  #launch(): void {
    if (this.#status !== "running") return;
    for (const plan of this.#planned) {
      this.#planned.delete(plan);
      if (!this.#walk.isWaitingFor(plan.key)) continue;
      if (plan.delay === 0) this.#startAttempt(plan);
      else
        this.#delays.set(
          plan.key,
          this.#context.sleep(plan.delay).map((): Heard => ({ due: plan })),
        );
    }
  }

  #startAttempt(plan: AttemptPlan): void {
    if (this.#status !== "running") return void this.#planned.add({ ...plan, delay: 0 });
    if (!this.#walk.isWaitingFor(plan.key)) return;
    const attempt = this.#context.run(plan.key, () => this.#runAttempt(plan));
    // A run without a failure: attempts report errors as results.
    this.#attempts.set(
      plan.key,
      attempt.map((result): Heard => ({ plan, result: result! })),
    );
  }

  async #runAttempt(plan: AttemptPlan): Promise<AttemptResult | NotStarted> {
    const isAdmitted = await Promise.race([this.#admitted.promise, this.#suspended.promise]);
    if (!isAdmitted) return { isNotStarted: true };
    if (this.#isReleased || !this.#walk.isWaitingFor(plan.key)) return new Promise<never>(() => {});
    this.#running.add(plan.key);
    return new Promise((resolve) => this.#walk.start(plan, resolve));
  }

  #listenAfter({ to }: Transition): void {
    this.#epoch++;
    this.#status = to;
    this.#listen();
    if (to === "running") this.#suspended = Promise.withResolvers();
    else this.#suspended.resolve(false);
  }
  #listen(): void {
    const command = this.#context.signal<Transition>(`t${this.#epoch + 1}`);
    this.#command = command.map((next): Heard => ({ command: next! })); // the register never rejects it
  }
  #listenToWatchers(): void {
    const watch = this.#context.signal<WatchInput>(`w${++this.#watchers}`);
    this.#watch = watch.map((input): Heard => ({ watch: input! }));
  }

  async #move(next: Transition): Promise<boolean> {
    const input: MoveInput = { next, epoch: this.#epoch, byDrive: true };
    const { moved: isMoved } = await this.#ask<MoveResult>("move", input);
    return isMoved;
  }
  #leave(): Promise<boolean> {
    return this.#ask<boolean>("leave", this.#epoch);
  }
  #ask<T>(method: string, input: unknown): Promise<T> {
    const { calls, names } = this.#parts;
    return calls.call<T>(this.#context, { service: names.register, key: this.execution.id, method }, input);
  }

  /** Suspends an execution that this code cannot continue. */
  #suspend(rows: readonly StoredRow[], mismatch: string): Promise<void> {
    const reason = `Workflow changed: ${mismatch}`;
    return this.#end(rows, { to: "suspended", kind: "system", reason, pending: [], position: lastPosition(rows) });
  }

  /** Makes a transition without a walk. If a command was first, it is stored in its place. */
  async #end(rows: readonly StoredRow[], change: Ending): Promise<void> {
    const at = await this.#context.run("at", () => Date.now());
    this.#rows = rows.length;
    this.#seq = rows.at(-1)?.seq ?? 0;
    this.#epoch = rows.at(-1)?.epoch ?? 0;
    this.#status = rows.at(-1)?.status ?? "running";
    for (const { epoch, next } of this.#input.commands) if (epoch > this.#epoch) this.#note(next);
    const next: Transition = { at, ...change };
    while (this.#status === "running" && !(await this.#move(next))) {
      this.#listen();
      const heard = await this.#command;
      if ("command" in heard) this.#note(heard.command);
    }
    if (this.#status === "running") this.#note(next);
    else if (this.#status === "suspended") await this.#leave();
  }

  /** Stores a transition as the row of a command. */
  #note(next: Transition): void {
    this.#epoch++;
    this.#status = next.to;
    const row = toCommandRow(this.#rows, this.#epoch, next);
    this.#store(row, next.to === "running" ? [] : [toTransitionEvent(next)], false, [this.#toState(next)]);
  }

  admit(): void {
    this.#admitted.resolve(true);
  }

  release(reason: string): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#leaveSlot();
    this.#walk.release(reason);
  }

  get status(): ExecutionStatus {
    return this.#status;
  }
  get position(): Position {
    return this.#walk.position();
  }
  get isBusy(): boolean {
    return this.#running.size > 0;
  }
}

type Ending =
  | { to: "suspended"; kind: "system"; reason: string; pending: []; position: Position | undefined }
  | { to: "error"; error: { message: string; shown: true } };

/** A row whose value has its size, as a walk needs it. */
const withBytes = (row: JournalRow): JournalRow =>
  row.kind === "value" && row.body !== null ? { ...row, bytes: Buffer.byteLength(row.body) } : row;

const moved = "The execution is no longer driven by this process";
const interrupted = "Interrupted by a restart";
