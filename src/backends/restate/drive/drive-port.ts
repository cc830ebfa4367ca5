import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Walk } from "../../../engine/attempts/walk.ts";
import { resolveTransition, type Execution, type ParkedBranch, type Transition } from "../../../engine/execution.ts";
import { findTakes, type FoundTakes, type Take } from "../../../engine/runs/find-takes.ts";
import { Run } from "../../../engine/runs/run.ts";
import type { Change, CommitOutcome, RunPort, NextTimes } from "../../../engine/runs/run-port.ts";
import type { AttemptPlan } from "../../../engine/walk/decision.ts";
import { toText, type Value } from "../../../engine/walk/value.ts";
import { toMailboxKey } from "../mailbox/service.ts";
import { toRecordsKey } from "../records.ts";
import type { DriveAttempts } from "./drive-attempts.ts";
import type { DriveClock } from "./drive-clock.ts";
import type { ReplicaServiceParts } from "../replica.ts";
import type { RegisterLink } from "./drive-link.ts";
import type { DriveRows } from "./drive-rows.ts";

interface PortParts extends ReplicaServiceParts {
  readonly context: ObjectContext;
  readonly execution: Execution;
  readonly clock: DriveClock;
  readonly link: RegisterLink;
  readonly rows: DriveRows;
  readonly walk: Walk;
  readonly attempts: DriveAttempts;
}

/** The port of a drive's run. The drive gives the answers, before the next input. */
export class DrivePort implements RunPort {
  readonly executionBytes: number;
  readonly clock: DriveClock;
  /** Outcomes of changes, events, the end of the drive: in order. */
  readonly answers: (() => void | Promise<void>)[] = [];
  times: NextTimes | undefined;
  /** True if nothing is in flight and the run only waits for its next timer. */
  isIdle = false;
  isOver = false;
  readonly run: Run;
  readonly #parts: PortParts;
  #lastRow: number;
  /** The register has continued the execution, because a wait is over. */
  #wake: { readonly next: Transition; takes: readonly Take[] } | undefined;
  /** The epoch in which the drive has asked to end. */
  #leftIn: number | undefined;

  constructor(parts: PortParts) {
    this.#parts = parts;
    this.executionBytes = parts.host.options.executionBytes;
    this.clock = parts.clock;
    this.#lastRow = Math.max(0, parts.rows.count - 1);
    this.run = new Run(parts.rows.state, parts.walk, this);
  }

  newRow(): number {
    return ++this.#lastRow;
  }

  append(change: Change, _request: unknown, onOutcome: (outcome: CommitOutcome) => void): void {
    const { rows, attempts, walk } = this.#parts;
    const { row, joined = [], events, parks, hasOwn } = change;
    this.#wake = undefined;
    for (const one of joined) rows.store(rows.toNext(one, [], []));
    if (row) rows.keep(row);
    if (row?.hasRecords) this.#clearRecords(row.key);
    attempts.onRow();
    const readText = (value: Value) => toText(value, (number) => rows.readText(number));
    const transitions = change.transitions.map((next) => resolveTransition(next, readText));
    if (hasOwn) {
      this.answers.push(() => this.#settle(change, transitions, onOutcome));
      return;
    }
    const state = rows.store(rows.toNext(row, events, transitions));
    attempts.setSuspended(rows.status !== "running");
    this.listenFor(state ? walk.parkedBranches() : parks);
    this.answers.push(() => onOutcome({ state }));
  }

  /** Asks the register for the last transition of a change, which the walk has made. */
  async #settle(
    { row, events }: Change,
    transitions: readonly Transition[],
    onOutcome: (outcome: CommitOutcome) => void,
  ): Promise<void> {
    const { rows, attempts, walk, link } = this.#parts;
    const next = transitions.at(-1)!;
    const failure = "error" in next ? walk.failedStep(next.error) : undefined;
    const { stored } = rows.toNext(row, events, transitions);
    const made = { stored: { ...stored, moved: true }, transitions };
    const notMade = rows.toNext(row, events, transitions.slice(0, -1));
    const onMade = (): void => walk.confirmTransition();
    const { isMade, state } = await rows.settle(link, next, { made, notMade, onMade, failure });
    attempts.setSuspended(rows.status !== "running");
    this.isOver = isMade; // the register has let it go
    onOutcome(isMade ? { state } : { state, isPreceded: true });
  }

  /** The result of the attempt is in Restate's journal: what it has recorded before is not needed. */
  #clearRecords(key: string): void {
    const { context, calls, execution } = this.#parts;
    calls.tell(context, "records/clear", null, { key: toRecordsKey(execution, key) });
  }

  start(plan: AttemptPlan): void {
    this.#parts.attempts.plan(plan);
  }

  alarm(times: NextTimes | undefined, isIdle: boolean): void {
    this.times = times;
    this.isIdle = times !== undefined && isIdle;
  }

  /** Ends waits after the register has resumed the execution: waits with an event, and due waits. */
  wake(next: Transition, takes: readonly Take[]): void {
    this.#wake = { next, takes };
    this.run.news();
    this.answers.push(() => this.#wake && this.run.command(next)); // no wait is over
  }

  findEvents(onFound: (found: FoundTakes) => void): void {
    const takes = this.#wake?.takes ?? [];
    if (this.#wake) this.#wake.takes = [];
    this.answers.push(async () => {
      if (takes.length > 0) return onFound({ takes, isCut: true });
      const found = await this.#parts.context.run("events", () => this.#findTakes());
      this.clock.advance(found.at);
      onFound(found);
    });
  }
  async #findTakes(): Promise<FoundTakes & { readonly at: number }> {
    const { execution, walk, host } = this.#parts;
    const recipient = { execution, walk, hasTaken: (id: string) => this.run.hasTaken(id) };
    return { ...(await findTakes(host.mailboxes.readerOf(execution), recipient)), at: Date.now() };
  }
  /** Subscribes to the mailboxes of waiting branches. */
  listenFor(branches: readonly ParkedBranch<Value>[]): void {
    const { rows, link } = this.#parts;
    const mailboxes = new Set(branches.flatMap(({ event }) => (event ? toMailboxKey(event) : [])));
    if (mailboxes.size > 0 && rows.status === "running") link.listen([...mailboxes]);
  }

  leave(): void {
    const { rows, link } = this.#parts;
    const { epoch, status } = rows;
    if (this.#wake || this.#leftIn === epoch) return; // a command is on its way
    this.#leftIn = epoch;
    this.answers.push(async () => {
      this.isOver ||= status !== "suspended" || (await link.leave(epoch));
    });
  }
}
