import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "../../../core/id.ts";
import { handlerReadMs } from "../calls.ts";
import type { RestateClient } from "../client/client.ts";
import type { DriveCounts } from "../../../engine/contract/engine.ts";
import type { LocalDrive } from "./drives.ts";
import type { CrashHandler } from "../register/register-crashes.ts";
import type { CrashInput, RescueInput } from "../register/register-state.ts";
import type { RowPage } from "./rows.ts";
import { isAlone, suspectMs, toVerdict } from "../../../engine/rules/crashes.ts";

/** The answer to a drive that was interrupted. */
export interface Clearance {
  readonly mayRun: boolean;
  /** The drive waits for other executions: the next suspect may run. */
  readonly pass: () => void;
  /** The drive has stored a row, or was released. */
  readonly end: () => void;
}

/** The time in which a replica with the old code may still take a drive. */
const rescueMs = 300;
const retryMs = 500;
const maxDelayMs = 10_000;
const maxSends = 10;
/** Max drives that are remembered. */
const maxSent = 1_000;
/** Time limit for retrying a report. */
const reportMs = 30_000;

/**
 * The drives of this replica that were interrupted, here or on another replica.
 *
 * N1. A crash is an interruption that no living process has reported. The register counts them by row, and counts a call that
 *     is made again once. A replica has at most one count of a drive on its way, however often the connection is cut.
 * N2. That a suspect runs is durable before its code runs, and so is that others run beside it. If its process dies before
 *     its next row, it is suspended, unless another one was started later. Then it runs alone to its next row.
 * N3. A rescue is sent to the register, and is completed by Restate. Until it is sent, Restate repeats the drive, here or
 *     elsewhere, which sends it again.
 * N4. A rescue has a known cause: a drive whose connection was cut needs none. Its idempotency key is the drive, so one at a
 *     time is on its way in the whole cluster. One that found no need to end the drive may be followed by another one, later.
 */
export class Interruptions {
  readonly #client: RestateClient;
  /** The turn of the last suspect. */
  #last: Promise<unknown> = Promise.resolve();
  /** The suspects that have started, and have not made a row. */
  readonly #started = new Set<LocalDrive>();
  readonly #counts = { retries: 0, rescues: { code: 0, journal: 0, restart: 0, crashes: 0, original: 0 } };
  /** The interruptions that the register is about to count, by drive. */
  readonly #counted = new Map<string, CrashCount>();
  /** The sent rescues of drives: their number, and the earliest time of the next one. The oldest first. */
  readonly #sent = new Map<string, { readonly tries: number; readonly until: number }>();

  constructor(client: RestateClient) {
    this.#client = client;
  }

  get counts(): DriveCounts {
    return this.#counts;
  }
  retried(): void {
    this.#counts.retries++;
  }

  /** Lets a drive that was interrupted run again: at once, in its turn, or not at all. */
  async clear(drive: LocalDrive): Promise<Clearance> {
    const { id } = drive.execution;
    const count = await this.#interrupted(drive);
    if (count === undefined || drive.isReleased) return refusal;
    const verdict = toVerdict(count);
    if (verdict === "suspend") {
      this.rescue({ gone: drive.invocation, cause: "crashes" }, id);
      return refusal;
    }
    if (verdict === "continue") return { mayRun: true, pass() {}, end() {} };
    const pass = await this.#enter(isAlone(count));
    const end = (): void => {
      this.#started.delete(drive);
      pass();
    };
    const isBeside = (one: LocalDrive) => (): boolean => this.#started.has(one) && !one.isReleased;
    await Promise.all([...this.#started].map((one) => this.#count(one, "beside", isBeside(one))));
    this.#started.add(drive);
    const isMarked = await this.#count(drive, "isolated", () => !drive.isReleased);
    if (isMarked === undefined) end();
    return { mayRun: isMarked !== undefined, pass, end };
  }

  /**
   * Lets suspects run one at a time. A suspect is an execution with two crashes in a row at the same row. If the process dies,
   * the last one to start is suspended, unless it has made a row. Resolves to the function that ends the turn.
   */
  async #enter(runsAlone: boolean): Promise<() => void> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    await before;
    const timer = runsAlone ? undefined : setTimeout(resolve, suspectMs).unref();
    return () => {
      clearTimeout(timer);
      resolve();
    };
  }

  /**
   * Counts an interruption. If the attempt before this one was cut off from here while its own was counted, no code has run
   * between: both are one.
   */
  #interrupted(drive: LocalDrive): Promise<number | undefined> {
    const { invocation } = drive;
    const known = this.#counted.get(invocation);
    if (known) {
      known.owner = drive;
      return known.answer;
    }
    const counted: CrashCount = { owner: drive, answer: Promise.resolve(undefined), until: 0 };
    const isWanted = (): boolean => !counted.owner.isReleased || performance.now() < counted.until;
    counted.answer = this.#count(drive, "interrupted", isWanted).finally(() => {
      if (this.#counted.get(invocation) === counted) this.#counted.delete(invocation);
    });
    this.#counted.set(invocation, counted);
    return counted.answer;
  }

  /** Reports that a drive was cut off from a living process. Resolves when Restate has the report. */
  async report(drive: LocalDrive): Promise<void> {
    if (!drive.hasStarted) return;
    let until = performance.now() + reportMs;
    const counted = this.#counted.get(drive.invocation);
    if (counted?.owner === drive) {
      counted.until = until;
      await counted.answer;
      if (counted.owner !== drive) return; // another attempt has taken its place
      until = performance.now() + reportMs;
    }
    await this.#count(drive, "released", () => performance.now() < until);
  }

  /** All code of a drive waits for other executions, or is about to continue. Resolves when Restate knows it. */
  async setAbsent(drive: LocalDrive, isAbsent: boolean): Promise<void> {
    await this.#count(drive, isAbsent ? "absent" : "present", () => !drive.isReleased);
  }

  /** Changes the register's count of a drive at its last row. Tries again while the condition holds; else undefined. */
  async #count(drive: LocalDrive, method: CrashHandler, isWanted: () => boolean): Promise<number | undefined> {
    const { id } = drive.execution;
    const token = newId();
    for (let failures = 0; isWanted();) {
      try {
        const from = Number.MAX_SAFE_INTEGER;
        const { last } = await this.#client.read<RowPage>("drive/rows", id, from, handlerReadMs);
        const input: CrashInput = { drive: drive.invocation, row: last?.number ?? 0 };
        return await this.#client.writeOnce<number>(`register/${method}`, id, input, token);
      } catch {
        await sleep(toDelay(failures++, retryMs), undefined, { ref: false });
      }
    }
    return undefined;
  }

  /** Ends a drive that cannot continue. Another one continues from the rows. */
  rescue(input: RescueInput, id: string): void {
    const { tries, until } = this.#sent.get(input.gone) ?? { tries: 0, until: 0 };
    if (performance.now() < until) return;
    const delayMs = toDelay(tries, rescueMs);
    this.#remember(input.gone, tries + 1, Infinity);
    void this.#send(input, id, delayMs).then(() =>
      this.#remember(input.gone, tries + 1, performance.now() + 2 * delayMs),
    );
  }
  async #send(input: RescueInput, id: string, delayMs: number): Promise<void> {
    for (let tries = 0; tries < maxSends; tries++) {
      try {
        const options = { id: input.gone, delayMs };
        const isFirst = await this.#client.sendOnce("register/rescue", id, input, options);
        if (isFirst) this.#counts.rescues[input.cause]++;
        return;
      } catch {
        await sleep(toDelay(tries, retryMs), undefined, { ref: false });
      }
    }
  }
  #remember(gone: string, tries: number, until: number): void {
    this.#sent.delete(gone);
    this.#sent.set(gone, { tries, until });
    const [oldest = gone] = this.#sent.keys();
    if (this.#sent.size > maxSent) this.#sent.delete(oldest);
  }

  /** Ends a drive by the admin API. False: there is no need to. */
  async endDrive({ gone, cause }: RescueInput): Promise<boolean> {
    const found = await this.#client.invocation(gone);
    // On another replica its code may fit.
    if (cause === "code" && found?.status === "running") return false;
    if (cause === "journal" && found && found.code !== journalMismatch) return false;
    await this.#client.kill(gone);
    return true;
  }
}

/** An interruption that the register is about to count. */
interface CrashCount {
  /** The attempt that waits for the answer. */
  owner: LocalDrive;
  answer: Promise<number | undefined>;
  /** Until then, the answer is awaited also if the attempt was cut off: another one may come here. */
  until: number;
}

/** Doubles a delay with each try, and adds up to half of it, so that many drives do not return at the same moment. */
const toDelay = (tries: number, firstMs: number): number =>
  Math.round(Math.min(maxDelayMs, firstMs * 2 ** tries) * (1 + Math.random() / 2));

const refusal: Clearance = { mayRun: false, pass() {}, end() {} };
/** Restate's code for a handler whose calls differ from its journal. */
const journalMismatch = "RT0016";
