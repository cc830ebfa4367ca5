import { newId } from "../../core/id.ts";
import { busy, ServeError, shuttingDown } from "../../core/error.ts";
import type { JsonText } from "../../core/json.ts";
import { toChangeReason } from "../../engine/compare-steps.ts";
import type { BeginOptions, Resume, RetryOptions } from "../../engine/contract/engine.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { Execution, ExecutionState, Transition } from "../../engine/execution.ts";
import type { ForkSource } from "../../engine/fork.ts";
import type { Share } from "../../engine/rules/event-shares.ts";
import { countStart } from "../../engine/runs/count-states.ts";
import type { SentEvent, Sending } from "../../engine/stored/sent-event.ts";
import { toCopies } from "./drive/drive-copy.ts";
import { findDifference } from "./drive/replay-rows.ts";
import { toGroupLimits } from "./groups/service.ts";
import { maxEvents, toMailboxKey, type SendInput } from "./mailbox/service.ts";
import { maxChildren } from "./register/moves.ts";
import type { BeginInput, ChildStartResult, MoveInput, MoveResult } from "./register/register-state.ts";
import type { Replica } from "./replica.ts";
import type { RestateTurns } from "./turns.ts";

type StartOptions = Pick<BeginOptions, "isFresh"> & Partial<Pick<BeginInput, "copies">>;

/** The starts, transitions and events that callers ask for on this replica. The registers and mailboxes make them. */
export class Commands {
  readonly #replica: Replica;
  readonly #turns: RestateTurns;

  constructor(replica: Replica, turns: RestateTurns) {
    this.#replica = replica;
    this.#turns = turns;
  }

  async begin(
    execution: Execution,
    program: Program,
    { isFresh, turn, write = () => Promise.resolve() }: BeginOptions = {},
  ): Promise<{ created: boolean }> {
    if (turn) {
      this.#refuseWhenClosing();
      return this.#turns.begin(execution, program, turn, write);
    }
    return this.#start(execution, program, { isFresh });
  }

  async fork(execution: Execution, program: Program, source: ForkSource): Promise<{ created: boolean }> {
    const readText = (row: number): Promise<JsonText | undefined> => this.#replica.stored.text(source.from, row);
    const copies = source.copied.length > 0 ? await toCopies(execution, source, readText) : undefined;
    return this.#start(execution, program, { copies });
  }

  async #start(execution: Execution, program: Program, how: StartOptions): Promise<{ created: boolean }> {
    const created = await this.#reserve(execution.id, program, () => this.#begin(execution, program, how));
    if (!created) return { created };
    countStart(this.#replica.options.metrics, execution.workflowId);
    this.#replica.changes.publish({ execution, status: "running", epoch: 0 });
    return { created };
  }

  /** Starts or continues an execution. A drive that comes here finds the program and a slot; its result is kept for the caller. */
  async #reserve<T>(id: string, program: Program, act: () => Promise<T>): Promise<T> {
    this.#refuseWhenClosing();
    const { release } = this.#replica.slots.reserve();
    const { programs, settled } = this.#replica;
    const forgetProgram = programs.expect(id, program);
    settled.expect(id);
    const forget = (): void => {
      forgetProgram();
      settled.forget(id);
    };
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
    const limits = toGroupLimits(program, this.#replica.options);
    if (!isFresh && (await this.#replica.states.isSolo(id))) return false;
    const failsOnCrash = program.recovery === "fail";
    const input: BeginInput = { execution, token: newId(), failsOnCrash, copies, limits };
    const { parent } = execution;
    const begun = parent?.cancels
      ? await this.#callRegister<ChildStartResult>("bear", parent.id, input, (result) => result === "missing")
      : await this.#replica.client.write<ChildStartResult>("register/begin", id, input);
    if (begun === "full") throw tooManyWait();
    if (begun === "many")
      throw new ServeError(400, `Execution ${parent?.id} has ${maxChildren} children with cancelWith`);
    if (begun === "cancelled" || begun === "missing")
      throw new ServeError(409, `Execution ${parent?.id} was cancelled`);
    return begun;
  }
  /** Calls a register. It is made before a second call, if an earlier version began the execution. */
  async #callRegister<T>(
    method: "bear" | "move",
    id: string,
    input: BeginInput | MoveInput,
    isMissing: (result: T) => boolean,
  ): Promise<T> {
    const { client, states } = this.#replica;
    const result = await client.write<T>(`register/${method}`, id, input);
    if (!isMissing(result)) return result;
    await states.adopt(id);
    return client.write<T>(`register/${method}`, id, input);
  }

  async suspend(id: string, reason: string): Promise<ExecutionState | false> {
    const { drives, stored } = this.#replica;
    const position = drives.get(id)?.position ?? (await stored.position(id));
    return this.#move(id, { next: { at: Date.now(), to: "suspended", reason, pending: [], position } });
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
      const limits = toGroupLimits(program, this.#replica.options);
      return this.#move(id, { next, ...expected, steps: program.steps, limits });
    });
  }

  /** The first difference between the rows of an execution and the code. One that is driven continues on its own. */
  async #findDifference(
    id: string,
    { epoch, branch }: Pick<MoveInput, "epoch" | "branch">,
    program: Program,
  ): Promise<string | undefined> {
    const [state, brief, rows] = await Promise.all([
      this.#replica.states.state(id),
      this.#replica.states.brief(id),
      this.#replica.stored.firstRows(id),
    ]);
    if (!state || state.status === "running" || brief?.isDriven !== false) return undefined;
    if (state.epoch !== epoch && branch === undefined) return undefined; // another change was first
    // Rows that the last drive has not stored yet are compared by the next one.
    if (rows.at(-1)?.epoch !== state.epoch) return undefined;
    return findDifference(state.execution, rows, [], program);
  }

  async send(event: SentEvent, share: Share): Promise<Sending> {
    this.#refuseWhenClosing();
    const { storedEvents = maxEvents } = this.#replica.options;
    const input: SendInput = { event, most: Math.min(maxEvents, storedEvents), share };
    // A call that is sent twice is known by the id of the event.
    const { client } = this.#replica;
    const sending = await client.write<Sending | "full">("mailbox/send", toMailboxKey(event), input);
    if (sending === "full") throw busy("Too many events are stored", 60);
    return sending;
  }

  cancel(id: string, reason: string): Promise<ExecutionState | false> {
    return this.#move(id, { next: { at: Date.now(), to: "error", cancellation: { reason } } });
  }

  async #move(id: string, change: Omit<MoveInput, "token">): Promise<ExecutionState | false> {
    const input: MoveInput = { ...change, token: newId() };
    const moved = await this.#callRegister<MoveResult>("move", id, input, ({ isMissing }) => isMissing === true);
    const { state, isBusy, isFull } = moved;
    if (isFull) throw tooManyWait();
    if (isBusy) throw busy(`Execution ${id} has too many changes that wait`, 1);
    if (!state) return false;
    this.#replica.settled.notify(state);
    this.#replica.changes.publish(state);
    if (state.status !== "running") this.#replica.options.onSettled?.(state);
    return state;
  }

  #refuseWhenClosing(): void {
    if (this.#replica.isClosing) throw shuttingDown();
  }
}

const tooManyWait = (): ServeError => busy("Too many executions are waiting", 1);
