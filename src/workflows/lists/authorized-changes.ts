import type { ActionRequest, Authorizer } from "../../core/access/authorizer.ts";
import { consoleCaller } from "../../core/caller.ts";
import { runOutOfScope } from "../../core/scope.ts";
import type { ChangeReader, Engine, ExecutionChange } from "../../engine/contract/engine.ts";
import type { ExecutionState } from "../../engine/execution.ts";
import { Changes, type ChangeFilter } from "../../engine/runs/changes.ts";
import { ReadQuestion, type Visible } from "../access.ts";

type ListRequest = Omit<ActionRequest, "action">;

/** A change that audiences are asked about. */
interface ChangeQuestion {
  readonly change: ExecutionChange;
  /** Undefined once it is dropped: the state is read again when it is needed. */
  question: ReadQuestion | undefined;
}

/** Max states that are kept for audiences with a slow `authorize`. */
const maxStates = 100;
/** Max changes that wait for the `authorize` of an audience. Beyond it, its streams end. */
const maxWaiting = 1_000;

/**
 * The list streams of a server for which `authorize` decides.
 *
 * AC1 One reader gets each change with its state. Nothing is asked if the filter of no stream wants it.
 * AC2 Streams with the same config version and an equal user, as JSON, are an audience: `authorize` is asked once for all of them.
 * AC3 An audience gets changes in their order. A slow `authorize` delays its own audience only.
 * AC4 `authorize` is code of the author: it is not called while the engine passes a change.
 * AC5 Nothing is kept of a change that all audiences have got, and nothing of an audience without streams.
 */
export class AuthorizedChanges {
  readonly #engine: Engine;
  readonly #audiences = new Set<Audience>();
  readonly #versions = new WeakMap<Authorizer, Map<string, Audience>>();
  /** The last states that an audience waits with. */
  readonly #states: WeakRef<ChangeQuestion>[] = [];
  readonly #reader: ChangeReader = {
    // The engine is in the middle of a commit. This is the work of all streams, not of the request that makes the change.
    push: (change, state) => queueMicrotask(() => runOutOfScope(() => this.#ask(change, state))),
    end: () => this.#end(),
  };
  #reading: AbortController | undefined;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Yields the changes that the caller may read, from the call on. */
  follow(
    request: ListRequest,
    authorizer: Authorizer,
    { filter, visible, signal }: { filter: ChangeFilter; visible: Visible; signal: AbortSignal },
  ): AsyncGenerator<ExecutionChange> {
    const known = this.#versions.get(authorizer) ?? new Map<string, Audience>();
    const key = toKey(request, authorizer, visible);
    const leave = (): void => {
      known.delete(key);
      this.#audiences.delete(audience);
      if (this.#audiences.size === 0) this.#stop();
    };
    const audience =
      known.get(key) ?? new Audience(request, visible, { onEmpty: leave, read: (id) => this.#engine.state(id) });
    const changes = audience.changes.open(filter, signal);
    if (!signal.aborted) {
      this.#versions.set(authorizer, known.set(key, audience));
      this.#audiences.add(audience);
      this.#start();
    }
    return changes;
  }

  #start(): void {
    if (this.#reading) return;
    this.#reading = new AbortController();
    this.#engine.watch(this.#reader, this.#reading.signal);
  }

  #stop(): void {
    this.#reading?.abort();
    this.#reading = undefined;
  }

  #end(): void {
    this.#reading = undefined;
    for (const audience of this.#audiences) audience.changes.end();
  }

  #ask(change: ExecutionChange, state: ExecutionState): void {
    const entry = { change, question: new ReadQuestion(state) };
    let isKept = false;
    for (const audience of this.#audiences) if (audience.changes.wants(change)) isKept = audience.take(entry) || isKept;
    if (isKept) this.#keep(entry);
  }

  #keep(entry: ChangeQuestion): void {
    this.#states.push(new WeakRef(entry));
    if (this.#states.length <= maxStates) return;
    const oldest = this.#states.shift()?.deref();
    if (oldest) oldest.question = undefined;
  }
}

/** The streams that may read the same executions. */
class Audience {
  readonly changes: Changes;
  readonly #request: ListRequest;
  readonly #visible: Visible;
  readonly #read: Engine["state"];
  #waiting: ChangeQuestion[] = [];
  #isAsking = false;

  constructor(
    request: ListRequest,
    visible: Visible,
    { onEmpty, read }: { onEmpty: () => void; read: Engine["state"] },
  ) {
    this.#request = request;
    this.#visible = visible;
    this.#read = read;
    this.changes = new Changes({
      onEmpty: () => {
        this.#waiting = [];
        onEmpty();
      },
    });
  }

  /** Asks about a change. Returns true if its state is needed later. */
  take(entry: ChangeQuestion): boolean {
    if (this.#isAsking) {
      this.#waiting.push(entry);
      if (this.#waiting.length > maxWaiting) this.changes.end();
      return true;
    }
    const { change, question } = entry;
    const allowed = question!.ask(this.#request, this.#visible);
    if (allowed === true) this.changes.notify(change, question!.state);
    else if (allowed !== false) void this.#wait(allowed, () => this.changes.notify(change, question!.state));
    return false;
  }

  /** Waits for `authorize`, then asks about the changes that came meanwhile. */
  async #wait(allowed: Promise<boolean>, pass: () => void): Promise<void> {
    this.#isAsking = true;
    try {
      if (await allowed) pass();
      for (let entry = this.#waiting.shift(); entry; entry = this.#waiting.shift()) {
        const question = entry.question ?? (await this.#readAgain(entry.change));
        if (question && (await question.ask(this.#request, this.#visible)))
          this.changes.notify(entry.change, question.state);
      }
    } catch (error) {
      this.changes.end(error);
    }
    this.#isAsking = false;
  }

  async #readAgain({ executionId }: ExecutionChange): Promise<ReadQuestion | undefined> {
    const state = await this.#read(executionId);
    return state && new ReadQuestion(state);
  }
}

/** Names the callers for whom each decision is the same. */
function toKey({ identity: { caller } }: ListRequest, { isGlobal }: Authorizer, visible: Visible): string {
  // `authorize` is not asked about the user of the console, which is recognized by its object.
  const user = caller === consoleCaller ? "console" : JSON.stringify(caller?.user);
  return isGlobal ? `${user}` : `${JSON.stringify(visible)} ${user}`;
}
