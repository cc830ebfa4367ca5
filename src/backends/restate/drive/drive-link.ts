import type { ObjectContext, RestatePromise } from "@restatedev/restate-sdk";
import type { Transition } from "../../../engine/execution.ts";
import type { Calls, ServiceNames } from "../calls.ts";
import type { DriveRequest, ListenInput, RedriveInput, SettleInput, WatchInput } from "../register/register-state.ts";

export type SignalInput =
  | { readonly command: Transition }
  | { readonly watch: WatchInput }
  | { readonly isOffered: true };

/** The commands that a drive stores before it tells the register. */
const commandsPerReport = 16;

/** A drive's connection with its register: the signals from it, and the requests to it. */
export class RegisterLink {
  readonly #context: ObjectContext;
  readonly #parts: { readonly calls: Calls; readonly names: ServiceNames };
  #watchers = 0;
  #offers = 0;
  #acknowledged = 0;

  constructor(context: ObjectContext, parts: { readonly calls: Calls; readonly names: ServiceNames }) {
    this.#context = context;
    this.#parts = parts;
  }

  get invocation(): string {
    return this.#context.request().id as unknown as string; // an id is a text with a brand
  }

  /** The command that leads to an epoch. */
  command(epoch: number): RestatePromise<SignalInput> {
    const command = this.#context.signal<Transition>(`t${epoch}`);
    return command.map((next): SignalInput => ({ command: next! })); // the register never rejects it
  }
  /** The next reader. */
  watch(): RestatePromise<SignalInput> {
    const watch = this.#context.signal<WatchInput>(`w${++this.#watchers}`);
    return watch.map((input): SignalInput => ({ watch: input! }));
  }

  /** The next time that a mailbox has events. */
  offer(): RestatePromise<SignalInput> {
    const offer = this.#context.signal<null>(`e${++this.#offers}`);
    return offer.map((): SignalInput => ({ isOffered: true }));
  }
  /** Asks to be told of the events of some mailboxes. */
  listen(mailboxes: readonly string[]): void {
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
  /** A command was stored. */
  acknowledge(epoch: number): void {
    if (++this.#acknowledged % commandsPerReport !== 0) return;
    this.#tell<Omit<DriveRequest, "reply">>("obeyed", { drive: this.invocation, epoch });
  }

  /** Sends a request and waits for its answer. It is not a call, which would be killed with this drive. */
  #ask<T extends DriveRequest>(method: string, input: Omit<T, "drive" | "reply">): Promise<boolean> {
    const { id: reply, promise } = this.#context.awakeable<boolean>();
    this.#tell(method, { ...input, drive: this.invocation, reply });
    return promise;
  }
  #tell<T>(method: string, input: T): void {
    const { calls, names } = this.#parts;
    calls.tell(this.#context, { service: names.register, key: this.#context.key, method }, input);
  }
}
