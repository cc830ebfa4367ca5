import type { ObjectContext, RestatePromise } from "@restatedev/restate-sdk";
import type { Transition } from "../../../engine/execution.ts";
import type { Calls } from "../calls.ts";
import type { DriveRequest, ListenInput, RedriveInput, SettleInput, WatchInput } from "../register/register-state.ts";

export type SignalInput =
  | { readonly command: Transition }
  | { readonly watch: WatchInput }
  | { readonly isOffered: true };

/** The stored commands for each acknowledgement. */
const commandsPerReport = 16;

/** A drive's connection with its register: the signals from it, and the requests to it. */
export class RegisterLink {
  readonly #context: ObjectContext;
  readonly #calls: Calls;
  #command: RestatePromise<SignalInput> | undefined;
  #watch: RestatePromise<SignalInput> | undefined;
  /** Undefined until a branch waits for an event. */
  #offer: RestatePromise<SignalInput> | undefined;
  #watchers = 0;
  #offers = 0;
  /** The last acknowledged epoch. */
  #reported: number | undefined;

  constructor(context: ObjectContext, calls: Calls) {
    this.#context = context;
    this.#calls = calls;
  }

  get invocation(): string {
    return this.#context.request().id as unknown as string; // an id is a text with a brand
  }

  /** The signals that the drive waits for. `epoch` follows the next command. */
  signals(epoch: number): RestatePromise<SignalInput>[] {
    this.#command ??= this.command(epoch);
    this.#watch ??= this.#signal(`w${++this.#watchers}`, (watch: WatchInput) => ({ watch }));
    return [this.#command, this.#watch, ...(this.#offer ? [this.#offer] : [])];
  }
  command(epoch: number): RestatePromise<SignalInput> {
    return this.#signal(`t${epoch}`, (command: Transition) => ({ command }));
  }
  #nextOffer(): RestatePromise<SignalInput> {
    return this.#signal(`e${++this.#offers}`, () => ({ isOffered: true }));
  }
  #signal<T>(name: string, toInput: (value: T) => SignalInput): RestatePromise<SignalInput> {
    return this.#context.signal<T>(name).map((value) => toInput(value as T)); // the register never rejects it
  }
  took(input: SignalInput): void {
    if ("command" in input) this.#command = undefined;
    else if ("watch" in input) this.#watch = undefined;
    else this.#offer = this.#nextOffer();
  }

  /** Subscribes to the events in some mailboxes. */
  listen(mailboxes: readonly string[]): void {
    this.#offer ??= this.#nextOffer();
    this.#tell<ListenInput>("listen", { drive: this.invocation, mailboxes });
  }
  /** Asks for a transition. False: a command was first, and is on its way. */
  settle(next: Transition, epoch: number): Promise<boolean> {
    return this.#ask<SettleInput>("settle", { next, epoch });
  }
  /** Asks to end with nothing in flight. False: a command is on its way. */
  leave(epoch: number): Promise<boolean> {
    return this.#ask("leave", { epoch });
  }
  /** Lets another drive continue from the rows. */
  handOver(change: Pick<RedriveInput, "steps" | "cause"> = {}): void {
    this.#tell<RedriveInput>("redrive", { gone: this.invocation, ...change });
  }
  /** All commands up to an epoch are stored. */
  acknowledge(epoch: number): void {
    this.#reported ??= epoch;
    if (epoch < this.#reported + commandsPerReport) return;
    this.#reported = epoch;
    this.#tell<Omit<DriveRequest, "reply">>("obeyed", { drive: this.invocation, epoch });
  }

  /** Sends a request and waits for its answer. It is not a call, which would be killed with this drive. */
  #ask<T extends DriveRequest>(method: string, input: Omit<T, "drive" | "reply">): Promise<boolean> {
    const { id: reply, promise } = this.#context.awakeable<boolean>();
    this.#tell(method, { ...input, drive: this.invocation, reply });
    return promise;
  }
  #tell<T>(method: string, input: T): void {
    this.#calls.tell(this.#context, `register/${method}`, input);
  }
}
