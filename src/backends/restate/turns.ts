import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../core/clock.ts";
import { withIds } from "../../core/log.ts";
import type { StartResult } from "../../engine/contract/engine.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { TurnStart } from "../../engine/contract/conversations.ts";
import type { Execution } from "../../engine/execution.ts";
import type { AttemptRecords } from "../../engine/contract/records.ts";
import { agentOf } from "../../engine/turn-execution.ts";
import type { Walk } from "../../engine/attempts/walk.ts";
import type { AttemptPlan } from "../../engine/walk/decision.ts";
import { handlerReadMs, objectOptions, type ObjectService, type ServiceParts } from "./calls.ts";
import type { RestateConversations } from "./conversations/conversations.ts";
import { maxCrashes, type TurnRun } from "./conversations/line-turn.ts";
import { lostTurn } from "./conversations/local-line.ts";
import type { RunInput, StartInput } from "./conversations/inputs.ts";
import { HeldPlace } from "./conversations/turn.ts";
import type { Replica } from "./replica.ts";
import { openRecords, toRecordsKey } from "./records.ts";

/** Retention of a turn without any replica that knows its agent. */
const unknownMs = 10 * 60_000;
const reportMs = 2_000;

/**
 * The turns of conversations that this replica runs.
 *
 * U1. A replica that begins a turn runs it itself, so that its client gets each word at once. The place in the line of the
 *     conversation is its lease (`line`).
 * U2. If it is lost, the conversation's object lets Restate run the turn. From then on, a handler of Restate has it: it is
 *     repeated on another replica if that one is lost as well.
 * U3. Every run goes over the same records, and the last one to open them is the only one that adds to them.
 */
export class RestateTurns {
  readonly #replica: Replica;
  readonly #conversations: RestateConversations;
  readonly #walks = new Set<Walk>();
  /** The turns that Restate runs here. */
  readonly #driven = new Set<RunInput>();

  constructor(replica: Replica, conversations: RestateConversations) {
    this.#replica = replica;
    this.#conversations = conversations;
  }

  /** Begins a turn whose place is open, and runs it here. */
  async begin(
    execution: Execution,
    program: Program,
    start: TurnStart,
    write: () => Promise<void>,
  ): Promise<StartResult> {
    const turn = this.#conversations.take(execution.id);
    const { walk, plan } = this.#createWalk(execution, program, (key) => this.#replica.openRecords(execution, key));
    const records = toRecordsKey(execution, plan.key);
    try {
      await turn.begin({ ...start, workflowId: execution.workflowId, records, execution }, write);
    } catch (error) {
      this.#release(walk);
      throw error;
    }
    void this.#run(walk, plan);
    return { created: true };
  }

  #createWalk(
    execution: Execution,
    program: Program,
    openOwn: (key: string) => Promise<AttemptRecords>,
  ): { walk: Walk; plan: AttemptPlan } {
    const walk = program.createWalk(execution, {
      readRow: () => execution.input, // the only value of a turn
      publishLive() {},
      clock: systemClock,
      slot: { lend() {}, regain: () => Promise.resolve() },
      openRecords: openOwn,
    });
    this.#walks.add(walk);
    const [plan] = walk.next().starts;
    return { walk, plan: plan! }; // its program has one step
  }

  /** Runs a turn to its end. Never resolves if the server is closed before. */
  async #run(walk: Walk, plan: AttemptPlan): Promise<void> {
    await new Promise<void>((resolve) => walk.start(plan, () => resolve()));
    this.#release(walk);
  }

  #release(walk: Walk): void {
    if (this.#walks.delete(walk)) walk.release("The turn is over");
  }

  /** Runs a turn whose replica was lost. `lost` is aborted when Restate has given up this attempt. */
  async drive(input: RunInput, lost: AbortSignal): Promise<void> {
    const { client, programs, options } = this.#replica;
    const { key, id, turnId, workflowId } = input;
    if (this.#replica.isClosing) throw new Error("The server is shutting down");
    const end = (reason: string): void =>
      withIds(options.logger, { executionId: turnId }).warn(`A turn of agent ${agentOf(workflowId)} ended: ${reason}`);
    const execution = await client.read<Execution | null>("conversation/execution", key, id, handlerReadMs);
    if (!execution) return; // it is over
    const program = await programs.find(execution);
    if (!program) {
      if (Date.now() - input.at < unknownMs) throw new Error(`This replica has no agent ${agentOf(workflowId)}`);
      return end("no replica has the agent");
    }
    const records = await openRecords(client, input.records);
    const start: StartInput = { id, recorded: records.found.size };
    const run = await client.write<TurnRun | null>("conversation/start", key, start);
    if (!run) return;
    if (run.crashes >= maxCrashes) return end(`interrupted ${maxCrashes} times by a crash`);
    const send = (): Promise<unknown> => client.write("conversation/end", key, id);
    const place = new HeldPlace(id, turnId, run, send);
    const giveUp = (): void => place.lose(lostTurn());
    lost.addEventListener("abort", giveUp, { once: true });
    if (lost.aborted) giveUp();
    const release = this.#conversations.hold(turnId, place);
    const { walk, plan } = this.#createWalk(execution, program, async () => withStop(records, run));
    this.#driven.add(input);
    try {
      await this.#run(walk, plan);
    } finally {
      lost.removeEventListener("abort", giveUp);
      release();
      this.#driven.delete(input);
      if (lost.aborted && !this.#replica.isClosing) void this.#report(input);
    }
    // Not a result: Restate has given up this attempt.
    if (lost.aborted) await new Promise<never>(() => {});
  }

  /** Reports that this process lives: the interruption of the turn is not a crash. */
  async #report({ key, id }: RunInput): Promise<void> {
    await this.#replica.client.write("conversation/released", key, id).catch(() => {});
  }

  /** Gives up the turns of this replica. Restate continues them elsewhere. */
  async close(): Promise<void> {
    const reports = [...this.#driven].map((input) => this.#report(input));
    await Promise.race([Promise.all(reports), sleep(reportMs, undefined, { ref: false })]);
    for (const walk of this.#walks) this.#release(walk);
  }
}

/** The records of a turn. A stop that another replica has answered is one of them. */
const withStop = ({ found, write }: AttemptRecords, { isStopped }: TurnRun): AttemptRecords => ({
  found: isStopped ? new Map([...found, ["stop", "true"]]) : found,
  write,
});

interface TurnServiceParts extends ServiceParts {
  readonly turns: RestateTurns;
  readonly conversations: RestateConversations;
}

/** The object that runs the turn of a lost replica, and begins a turn to continue an answer. */
export function createTurnService({ calls, object, turns, conversations }: TurnServiceParts): ObjectService {
  // A turn has no time limit of its own.
  const options = { ...objectOptions, inactivityTimeout: { days: 365 }, abortTimeout: { minutes: 1 } };
  return object("turn", options, {
    /** The execution with this key is over, and an answer waits for it. Resolves when the answer continues. */
    ended: (context, conversation: string): Promise<void> =>
      context.run("continue", () => conversations.continueAnswer(context.key, conversation)),

    async run(context, input: RunInput): Promise<void> {
      const { attemptCompletedSignal } = context.request();
      await context.run("turn", () => turns.drive(input, attemptCompletedSignal));
      calls.tell(context, "conversation/end", input.id, { key: input.key });
    },
  });
}
