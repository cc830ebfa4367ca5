import { ServeError } from "../../../core/error.ts";
import { within } from "../../../core/clock.ts";
import type {
  AdmitHistory,
  History,
  StoredMessage,
  StoreOptions,
  Turn,
  TurnListener,
} from "../../../engine/contract/conversations.ts";
import type { Execution } from "../../../engine/execution.ts";
import type { PendingCall } from "../../../engine/stored/pending-calls.ts";
import { deletedConversation } from "../../../engine/stored/stored-conversation.ts";
import { persist, type RestateClient } from "../client/client.ts";
import { LocalPlace, lostTurn, outageMs } from "./local-line.ts";
import type { TurnRun } from "./line-turn.ts";
import { toBatch, toNumber } from "./messages.ts";
import { publishAnswer } from "./sent-answer.ts";
import type { PlaceCalls, PlaceInput, PlaceResult, StoreInput } from "./inputs.ts";

/** A turn that is about to begin. */
type BeginTurn = NonNullable<StoreInput["begins"]>["turn"] & { readonly execution: Execution };

/** Max characters of an input in the first store. A longer one is sent before: the user's message has its files twice more. */
const maxInlineInput = 1_000_000;

interface TurnParts {
  readonly client: RestateClient;
  readonly key: string;
  readonly place: LocalPlace;
  /** Max bytes of a history. */
  readonly maxBytes: number;
  /** The signal of the call. */
  readonly stop: AbortSignal;
  readonly run: number;
}

/** Restate drops the connection for a message of more than 32 MiB. */
const maxStoreBytes = 30_000_000;
/** Time limit of an ending turn for the news to reach the conversation's object. */
const leaveMs = 1_000;

/** A turn that this replica has, until it closes it or loses it. */
export class RestateTurn implements Turn {
  readonly #parts: TurnParts;
  readonly #over = new AbortController();
  #stores = 0;
  /** True if the turn is known to Restate, so that it continues after a crash. */
  #isBegun: boolean;
  #stored: Promise<unknown> = Promise.resolve();
  /** The turn that begins with the next store. */
  #beginning: NonNullable<StoreInput["begins"]> | undefined;

  constructor(parts: TurnParts) {
    this.#parts = parts;
    this.#isBegun = parts.run > 1;
  }

  get signal(): AbortSignal {
    return this.#parts.place.lost;
  }

  /** Begins the turn, together with what `write` stores. From then on, a crash of this replica does not end it. */
  async begin(turn: BeginTurn, write: () => Promise<void>): Promise<void> {
    const { execution, ...rest } = turn;
    let begins: NonNullable<StoreInput["begins"]> = { turn: rest, execution };
    if (execution.input.length > maxInlineInput) {
      await this.#ask("keep", { execution });
      begins = { turn: rest };
    }
    this.#beginning = begins;
    await write();
    await this.#stored; // rejects if it could not be stored
    if (this.#beginning) await this.#store({}, {}); // `write` stored nothing: store the beginning alone
    this.#parts.place.isNew = false;
    this.#isBegun = true;
  }

  async history(until?: string, admit?: AdmitHistory): Promise<History> {
    const history = await this.#ask("history", { until, maxBytes: this.#parts.maxBytes });
    const { rows, stored, found, omitted } = history;
    await admit?.(rows.reduce((sum, { bytes }) => sum + bytes, 0));
    const models = [...history.models];
    while (models.length < rows.length) {
      const numbers = toBatch(rows.slice(models.length)).map(toNumber);
      models.push(...(await this.#ask("models", { numbers })));
    }
    const messages = rows.map((row, index) => ({
      id: row.id ?? undefined,
      role: row.role,
      models: models[index] ?? "",
    }));
    return { stored, found, omitted, messages };
  }

  calls(ids: readonly string[]): Promise<readonly PendingCall[]> {
    return this.#ask("calls", { calls: ids });
  }

  store(messages: readonly StoredMessage[], until?: string, options: StoreOptions = {}): Promise<void> {
    const storing = this.#store({ messages, until }, options);
    // A turn whose question could not be stored has not begun.
    this.#stored = this.#beginning ? storing : storing.catch(() => {});
    this.#stored.catch(() => {}); // it is awaited by `begin`
    return storing;
  }

  async #store(
    { messages, until }: Pick<StoreInput, "messages" | "until">,
    { isLast, title = "", changed, decided, waiting }: StoreOptions,
  ): Promise<void> {
    if (messages) refuseLarge(messages);
    const { place } = this.#parts;
    const begins = this.#beginning;
    const facts = { title, now: Date.now() };
    const number = ++this.#stores;
    const changes = { changed, decided, waiting };
    const input: StoreInput = { until, number, messages, facts, begins, isLast, ...changes };
    const news = await this.#ask("store", input);
    this.#beginning = undefined;
    if (isLast && this.#isBegun) place.ended(news);
  }

  /**
   * Calls the conversation's object for its place, and tries again through an outage. A step of an execution is durable: it has
   * no limit. Rejects if the place does not have the turn any more.
   */
  async #ask<Name extends keyof PlaceCalls>(name: Name, input: PlaceInput<Name>): Promise<PlaceResult<Name>> {
    const { client, key, place, stop } = this.#parts;
    const until = performance.now() + (place.isNew ? outageMs : Infinity);
    const onFailure = (error: unknown, pauseMs: number): void => {
      if ((stop.aborted && !this.#isBegun) || performance.now() + pauseMs > until) throw error;
      if (place.lost.aborted) throw place.lost.reason;
    };
    const answer = await persist(
      () => client.write<PlaceResult<Name> | null>(`conversation/${name}`, key, { id: place.id, ...input }),
      {
        onFailure,
      },
    );
    if (answer) return answer;
    const isDeleted = await client.read<boolean>("conversation/isDeleted", key, place.id).catch(() => false);
    throw isDeleted ? deletedConversation() : lostTurn();
  }

  async close(isUnfinished = false): Promise<void> {
    const { place } = this.#parts;
    await this.#stored.catch(() => {}); // the next turn must see what is being stored
    if (isUnfinished) this.#over.abort();
    if (isUnfinished) place.handOver();
    else place.leave();
    await within(leaveMs, place.left, { onLate: () => {}, keepAlive: false });
  }

  /** Listens for stops, and for readers on other replicas. Without `this`: it is called as a function. */
  readonly listen = (listener: TurnListener): void => {
    void this.#listen(listener);
  };

  async #listen(listener: TurnListener): Promise<void> {
    const { client, key, place, run } = this.#parts;
    const over = AbortSignal.any([this.#over.signal, place.lost]);
    void place.left.then(() => this.#over.abort());
    let isPublishing = false;
    while (!over.aborted) {
      const orders = await client.waitOnce("orders", { key, id: place.id, isPublishing }, over);
      if (orders?.isDeleted) place.drop(deletedConversation());
      if (orders?.isOver) return;
      if (orders?.isStopped) listener.stop();
      if (orders?.isHeard && !isPublishing) {
        isPublishing = true;
        const publication = { client, turnId: place.name ?? "", run, signal: place.lost };
        void publishAnswer(listener.follow(place.lost), publication);
      }
      if (orders?.isStopped) return;
    }
  }
}

/**
 * The place of a turn that Restate runs on this replica. The handler that runs the turn leaves it. When this replica is closed,
 * Restate continues it on another one.
 */
export class HeldPlace extends LocalPlace {
  /** The number of the run. */
  readonly run: number;
  readonly #send: () => Promise<unknown>;
  #isLeaving = false;

  /** `send` tells the conversation's object of the end. */
  constructor(id: string, name: string, { run }: TurnRun, send: () => Promise<unknown>) {
    super(id, name, false);
    this.run = run;
    this.#send = send;
  }

  leave(): void {
    const forget = (): void => this.forget();
    if (this.lost.aborted) return forget(); // another replica has it
    if (this.#isLeaving) return;
    this.#isLeaving = true;
    this.#send().then(forget, forget);
  }
}

function refuseLarge(messages: readonly StoredMessage[]): void {
  const length = messages.reduce((sum, { models, ui }) => sum + models.length + ui.length, 0);
  if (length * 3 <= maxStoreBytes) return; // a character takes at most 3 bytes
  const bytes = Buffer.byteLength(JSON.stringify(messages));
  if (bytes > maxStoreBytes)
    throw new ServeError(413, `This turn was not stored: it has ${bytes} bytes, and Restate takes ${maxStoreBytes}`);
}
