import type { Share } from "../../engine/rules/event-shares.ts";
import type { SentEvent, Sending } from "../../engine/stored/sent-event.ts";
import { busy, ServeError, shuttingDown } from "../../core/error.ts";
import { newId } from "../../core/id.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { JsonText } from "../../core/json.ts";
import type { BeginOptions, Resume, RetryOptions } from "../../engine/contract/engine.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { ForkSource } from "../../engine/fork.ts";
import type { Execution, ExecutionState, Position, Transition } from "../../engine/execution.ts";
import { countStart } from "../../engine/runs/count-states.ts";
import type { OnSettled } from "../../engine/execution-log.ts";
import { Changes } from "../../engine/runs/changes.ts";
import { Slots } from "../../engine/runs/slots.ts";
import type { ServiceNames } from "./calls.ts";
import { RestateClient } from "./client/client.ts";
import { LocalDrives } from "./drive/drives.ts";
import { toGroupLimits } from "./groups/service.ts";
import { toMailboxKey } from "./mailbox/mailbox-key.ts";
import { maxEvents, type SendInput } from "./mailbox/service.ts";
import { Programs } from "./programs.ts";
import { maxChildren } from "./register/register-children.ts";
import type { ChildStartResult, BeginInput, Copies, MoveInput, MoveResult } from "./register/register-state.ts";
import { toCopies } from "./drive/copies.ts";
import { findDifference } from "./drive/replay-rows.ts";
import { SettledStates } from "./reads/settled-states.ts";
import { States } from "./reads/states.ts";
import { StoredEvents } from "./reads/stored-events.ts";
import { RestateTurns } from "./turns.ts";
import { toChangeReason } from "../../engine/compare-steps.ts";

/** What the starts and commands of a replica need. */
interface CommandParts {
  readonly options: CommandOptions;
  readonly names: ServiceNames;
  readonly client: RestateClient;
  readonly states: States;
  readonly drives: LocalDrives;
  readonly slots: Slots;
  readonly programs: Programs;
  readonly settled: SettledStates;
  readonly changes: Changes;
  readonly stored: StoredEvents;
  readonly turns: RestateTurns;
  readonly closing: AbortSignal;
  /** Resolves after the first registration, or the first failure of it. */
  readonly known: Promise<void>;
}
interface CommandOptions {
  readonly waitingExecutions: number;
  readonly storedEvents?: number | undefined;
  readonly metrics?: Metrics | undefined;
  readonly onSettled?: OnSettled | undefined;
}

interface StartOptions {
  readonly isFresh?: boolean | undefined;
  readonly copies?: Copies | undefined;
}

/** The starts, transitions and events that callers ask for on this replica. The registers and mailboxes make them. */
export class Commands {
  readonly #parts: CommandParts;

  constructor(parts: CommandParts) {
    this.#parts = parts;
  }

  async begin(
    execution: Execution,
    program: Program,
    { isFresh, turn, write = () => Promise.resolve() }: BeginOptions = {},
  ): Promise<{ created: boolean }> {
    if (turn) {
      this.#refuseWhenClosing();
      return this.#parts.turns.begin(execution, program, turn, write);
    }
    return this.#start(execution, program, { isFresh });
  }

  async fork(execution: Execution, program: Program, source: ForkSource): Promise<{ created: boolean }> {
    const readText = (row: number): Promise<JsonText | undefined> => this.#parts.stored.text(source.from, row);
    const copies = source.copied.length > 0 ? await toCopies(execution, source, readText) : undefined;
    return this.#start(execution, program, { copies });
  }

  async #start(execution: Execution, program: Program, how: StartOptions): Promise<{ created: boolean }> {
    const created = await this.#reserve(execution.id, program, () => this.#begin(execution, program, how));
    if (!created) return { created };
    countStart(this.#parts.options.metrics, execution.workflowId);
    this.#parts.changes.publish({ execution, status: "running", epoch: 0 });
    return { created };
  }

  /** Starts or continues an execution. A drive that comes here finds the program and a slot. */
  async #reserve<T>(id: string, program: Program, act: () => Promise<T>): Promise<T> {
    this.#refuseWhenClosing();
    const { release } = this.#parts.slots.reserve();
    const forget = this.#expect(id, program);
    try {
      const done = await act();
      if (!done) forget();
      return done;
    } catch (error) {
      forget();
      throw error;
    } finally {
      release();
    }
  }

  async #begin(execution: Execution, program: Program, { isFresh = false, copies }: StartOptions): Promise<boolean> {
    const { id } = execution;
    const limits = toGroupLimits(program, this.#parts.options);
    if (!isFresh && (await this.#parts.states.solo.has(id))) return false;
    const failsOnCrash = program.recovery === "fail";
    const input: BeginInput = { execution, token: newId(), failsOnCrash, copies, limits };
    const { parent } = execution;
    const begun = parent?.cancels
      ? await this.#beginChild(parent.id, input)
      : await this.#write<ChildStartResult>(id, "begin", input);
    if (begun === "full") throw tooManyWait();
    if (begun === "many")
      throw new ServeError(400, `Execution ${parent?.id} has ${maxChildren} children with cancelWith`);
    if (begun === "cancelled" || begun === "missing")
      throw new ServeError(409, `Execution ${parent?.id} was cancelled`);
    return begun;
  }
  /** Starts a child that is cancelled with its parent. */
  async #beginChild(parentId: string, input: BeginInput): Promise<ChildStartResult> {
    const beginIt = (): Promise<ChildStartResult> => this.#write(parentId, "bear", input);
    const begun = await beginIt();
    if (begun !== "missing") return begun;
    await this.#parts.states.solo.adopt(parentId);
    return beginIt();
  }

  /** Keeps the program for a drive that comes here, and its result for the caller. Returns the undoing. */
  #expect(id: string, program: Program): () => void {
    const forget = this.#parts.programs.expect(id, program);
    this.#parts.settled.expect(id);
    return () => {
      forget();
      this.#parts.settled.forget(id);
    };
  }

  async suspend(id: string, reason: string): Promise<ExecutionState | false> {
    const position = this.#parts.drives.get(id)?.position ?? (await this.#positionElsewhere(id));
    return this.#move(id, { next: { at: Date.now(), to: "suspended", reason, pending: [], position } });
  }
  async #positionElsewhere(id: string): Promise<Position | undefined> {
    await this.#parts.known;
    return this.#parts.stored.position(id);
  }

  resume(id: string, epoch: number, how: Resume, program: Program): Promise<ExecutionState | false> {
    const { branch, ...rest } = how;
    return this.#continue(id, { epoch, branch }, { at: Date.now(), to: "running", ...rest }, program);
  }
  retry(id: string, epoch: number, how: RetryOptions, program: Program): Promise<ExecutionState | false> {
    return this.#continue(id, { epoch }, { at: Date.now(), to: "running", isRetry: true, ...how }, program);
  }

  #continue(
    id: string,
    expected: Pick<MoveInput, "epoch" | "branch">,
    next: Transition,
    program: Program,
  ): Promise<ExecutionState | false> {
    return this.#reserve(id, program, async () => {
      const difference = await this.#findDifference(id, expected, program);
      if (difference !== undefined) throw new ServeError(409, toChangeReason(difference));
      const limits = toGroupLimits(program, this.#parts.options);
      return this.#move(id, { next, ...expected, steps: program.steps, limits });
    });
  }

  /** The first difference between the rows of an execution and the code. One that is driven continues on its own. */
  async #findDifference(
    id: string,
    { epoch, branch }: Pick<MoveInput, "epoch" | "branch">,
    program: Program,
  ): Promise<string | undefined> {
    await this.#parts.known;
    const [state, brief, rows] = await Promise.all([
      this.#parts.states.state(id),
      this.#parts.states.brief(id),
      this.#parts.stored.allRows(id),
    ]);
    if (!state || state.status === "running" || brief?.isDriven !== false) return undefined;
    if (state.epoch !== epoch && branch === undefined) return undefined; // another change was first
    // Rows that the last drive has not stored yet are compared by the next one.
    if (rows.at(-1)?.epoch !== state.epoch) return undefined;
    return findDifference(state.execution, rows, [], program);
  }

  async send(event: SentEvent, share: Share): Promise<Sending> {
    this.#refuseWhenClosing();
    await this.#parts.known;
    const { storedEvents = maxEvents } = this.#parts.options;
    const input: SendInput = { event, most: Math.min(maxEvents, storedEvents), share };
    // A call that is sent twice is known by the id of the event.
    const sending = await this.#parts.client.write<Sending | "full">(
      this.#parts.names.mailbox,
      toMailboxKey(event),
      "send",
      input,
    );
    if (sending === "full") throw busy("Too many events are stored", 60);
    return sending;
  }

  cancel(id: string, reason: string): Promise<ExecutionState | false> {
    return this.#move(id, { next: { at: Date.now(), to: "error", cancellation: { reason } } });
  }

  async #move(id: string, change: Omit<MoveInput, "token">): Promise<ExecutionState | false> {
    const input: MoveInput = { ...change, token: newId() };
    const move = (): Promise<MoveResult> => this.#write(id, "move", input);
    let moved = await move();
    if (moved.isMissing) {
      await this.#parts.states.solo.adopt(id);
      moved = await move();
    }
    const { state, isBusy, isFull } = moved;
    if (isFull) throw tooManyWait();
    if (isBusy) throw busy(`Execution ${id} has too many changes that wait`, 1);
    if (!state) return false;
    this.#parts.settled.notify(state);
    this.#parts.changes.publish(state);
    if (state.status !== "running") this.#parts.options.onSettled?.(state);
    return state;
  }

  async #write<T>(id: string, method: string, input: unknown): Promise<T> {
    await this.#parts.known;
    return this.#parts.client.write(this.#parts.names.register, id, method, input);
  }

  #refuseWhenClosing(): void {
    if (this.#parts.closing.aborted) throw shuttingDown();
  }
}

const tooManyWait = (): ServeError => busy("Too many executions are waiting", 1);
