import type { ServeError } from "../../../core/error.ts";
import type { LocalPlace } from "./local-line.ts";

/** The place of a turn that Restate runs on this replica. It is left by the handler that runs the turn. */
export class HeldPlace implements LocalPlace {
  readonly id: string;
  readonly name: string;
  /** The number of the run. */
  readonly run: number;
  isNew = false;
  readonly granted: Promise<void> = Promise.resolve();
  readonly #left = Promise.withResolvers<void>();
  readonly left: Promise<void> = this.#left.promise;
  readonly #lost = new AbortController();
  readonly lost: AbortSignal = this.#lost.signal;
  readonly #send: () => Promise<unknown>;
  #isLeaving = false;

  /** `send` tells the conversation's object of the end. */
  constructor({ id, name, run }: Pick<HeldPlace, "id" | "name" | "run">, send: () => Promise<unknown>) {
    this.id = id;
    this.name = name;
    this.run = run;
    this.#send = send;
  }

  /** Aborts the run. */
  lose(error: ServeError): void {
    this.#lost.abort(error);
  }
  leave(): void {
    const forget = (): void => this.#left.resolve();
    if (this.lost.aborted) return forget(); // another replica has it
    if (this.#isLeaving) return;
    this.#isLeaving = true;
    this.#send().then(forget, forget);
  }
  /** Restate continues it on another replica when this one is closed. */
  handOver(): void {
    this.#left.resolve();
  }
  ended(): void {
    this.#left.resolve();
  }
  drop(error: ServeError): void {
    this.#left.resolve();
    this.lose(error);
  }
}
