import type { ServeError } from "../../../core/error.ts";
import type { LocalPlace } from "./local-line.ts";

/** The place of a turn that Restate runs on this replica. It is left by the handler that runs the turn. */
export class HeldPlace implements LocalPlace {
  readonly id: string;
  readonly name: string;
  /** The number of the run. */
  readonly run: number;
  readonly lost: AbortSignal;
  isNew = false;
  readonly granted: Promise<void> = Promise.resolve();
  readonly #left = Promise.withResolvers<void>();
  readonly #send: () => Promise<unknown>;
  readonly #lose: (error: ServeError) => void;
  #isLeaving = false;

  /** `send` tells the conversation's object of the end, `lose` aborts the run. */
  constructor(
    { id, name, run, lost }: Pick<HeldPlace, "id" | "name" | "run" | "lost">,
    { send, lose }: { send: () => Promise<unknown>; lose: (error: ServeError) => void },
  ) {
    this.id = id;
    this.name = name;
    this.run = run;
    this.lost = lost;
    this.#send = send;
    this.#lose = lose;
  }

  get left(): Promise<void> {
    return this.#left.promise;
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
    this.#lose(error);
  }
}
