import { setTimeout as sleep } from "node:timers/promises";
import { handlerReadMs, type ServiceNames } from "../calls.ts";
import type { RestateClient } from "../client/client.ts";
import type { LocalDrive } from "./drives.ts";
import { crashesBeside, maxCrashes, type CrashHandler } from "../register/register-crashes.ts";
import type { CrashInput, RescueInput } from "../register/register-state.ts";
import type { RowPage } from "./rows.ts";
import { Suspects, type Clearance } from "./suspects.ts";

/** The time in which a replica with the old code may still take a drive. */
const rescueMs = 300;
const retryMs = 500;
const registerMs = 20;
const maxReports = 60;

/**
 * The drives of this replica that were interrupted, here or on another replica.
 *
 * N1. A crash is an interruption that no living process has reported. The register counts them by row.
 * N2. That a suspect runs is durable before its code runs, and so is that others run beside it. If its process dies before
 *     its next row, it is suspended, unless another one was started later. Then it runs alone to its next row.
 * N3. A rescue is sent to the register, and is completed by Restate. Until it is sent, Restate repeats the drive, here or
 *     elsewhere, which sends it again.
 */
export class Interruptions {
  readonly #client: RestateClient;
  readonly #names: ServiceNames;
  readonly #suspects = new Suspects();
  /** The suspects that have started, and have not made a row. */
  readonly #started = new Set<LocalDrive>();
  /** The drives for which a rescue was sent a moment ago. */
  readonly #sent = new Set<string>();

  constructor(client: RestateClient, names: ServiceNames) {
    this.#client = client;
    this.#names = names;
  }

  /** Lets a drive that was interrupted run again: at once, in its turn, or not at all. */
  async clear(drive: LocalDrive): Promise<Clearance> {
    const { id } = drive.execution;
    const count = await this.#count(drive, "interrupted", () => !drive.isReleased);
    if (count === undefined) return refusal;
    if (count > crashesBeside) {
      this.rescue({ gone: drive.invocation, cause: "crashes" }, id);
      return refusal;
    }
    if (count < maxCrashes) return { mayRun: true, pass() {}, end() {} };
    const pass = await this.#suspects.enter(count === crashesBeside);
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

  /** Reports that a drive was cut off from a process that lives. Resolves when Restate has the report. */
  async report(drive: LocalDrive): Promise<void> {
    let tries = 0;
    if (drive.hasStarted) await this.#count(drive, "released", () => ++tries <= maxReports);
  }

  /** All code of a drive waits for other executions, or is about to continue. Resolves when Restate knows it. */
  async note(drive: LocalDrive, isAbsent: boolean): Promise<void> {
    await this.#count(drive, isAbsent ? "absent" : "present", () => !drive.isReleased);
  }

  /** Changes the register's count of a drive at its last row. Tries again while the condition holds; else undefined. */
  async #count(drive: LocalDrive, method: CrashHandler, isWanted: () => boolean): Promise<number | undefined> {
    const { id } = drive.execution;
    while (isWanted()) {
      try {
        const from = Number.MAX_SAFE_INTEGER;
        const { last } = await this.#client.read<RowPage>(this.#names.drive, id, "rows", from, handlerReadMs);
        const input: CrashInput = { drive: drive.invocation, row: last?.number ?? 0 };
        const count = await this.#client.write<number | null>(this.#names.register, id, method, input);
        if (count !== null) return count;
        drive.summon();
        await sleep(registerMs, undefined, { ref: false }); // it asks for its register
      } catch {
        await sleep(retryMs, undefined, { ref: false });
      }
    }
    return undefined;
  }

  /** Ends a drive that cannot continue. Another one continues from the rows. */
  rescue(input: RescueInput, id: string): void {
    const { gone } = input;
    if (this.#sent.has(gone)) return;
    this.#sent.add(gone);
    const forget = (): void => void this.#sent.delete(gone);
    const sending = this.#client.send(this.#names.register, id, "rescue", input, rescueMs);
    sending.then(() => setTimeout(forget, 2 * rescueMs).unref(), forget);
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

const refusal: Clearance = { mayRun: false, pass() {}, end() {} };
/** Restate's code for a handler whose calls are not those of its journal. */
const journalMismatch = "RT0016";
