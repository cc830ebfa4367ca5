import type { ObjectContext, ObjectSharedContext } from "@restatedev/restate-sdk";
import type { JsonText } from "../../../core/json.ts";
import { shortHandlers, type ObjectService, type ServiceParts } from "../calls.ts";

/** A reader's place in an answer. */
export interface AnswerCursor {
  /** The run. Undefined: the current one. */
  readonly run?: number | undefined;
  /** The number of batches that were read. */
  readonly from: number;
}
export interface PublishInput {
  readonly run: number;
  readonly number: number;
  readonly texts: readonly JsonText[];
  /** Set with the last batch. */
  readonly end?: AnswerEnd | undefined;
}
/** The end of an answer. `failure` is the error before its first part. */
export interface AnswerEnd {
  readonly failure?: { readonly status: number; readonly message: string } | undefined;
}
/** Some batches of an answer. */
export interface AnswerPage {
  readonly run: number;
  readonly batches: readonly (readonly JsonText[])[];
  /** Set if there are no more batches, and none will come. */
  readonly end?: AnswerEnd | undefined;
  /** The run of the reader was interrupted. */
  readonly isCut?: boolean | undefined;
}
interface StoredAnswer {
  readonly run: number;
  readonly count: number;
  readonly end?: AnswerEnd | undefined;
  /** The awakeables of readers. */
  readonly waiting: readonly string[];
}

/** Max batches of a page: a batch has about 1 MB at most. */
const maxBatches = 8;
/** The time for which an answer can be read after its end. */
const keptMs = 60_000;
const toBatchKey = (number: number): string => `b${number}`;
const none: StoredAnswer = { run: 0, count: 0, waiting: [] };

/**
 * The answer of one turn, for readers of replicas that do not run it. It is published only if there are such readers.
 *
 * A1. It has the batches of one run. A later run replaces them, and an earlier one cannot add to them.
 * A2. It is removed some time after its end.
 */
export function createAnswers({ calls, object, reads }: ServiceParts): ObjectService {
  function write(context: ObjectContext, before: StoredAnswer, next: Omit<StoredAnswer, "waiting">): void {
    for (const awakeable of before.waiting) context.resolveAwakeable(awakeable, null);
    context.set<StoredAnswer>("answer", { ...next, waiting: [] });
    if (next.end && !before.end) calls.tell(context, "answer/clear", null, { delayMs: keptMs });
  }
  /** Begins the answer of a later run. */
  function restart(context: ObjectContext, before: StoredAnswer, run: number): StoredAnswer {
    for (let number = 0; number < before.count; number++) context.clear(toBatchKey(number));
    const next = { run, count: 0, waiting: [] };
    write(context, before, next);
    return next;
  }

  return object("answer", shortHandlers, {
    /** Adds a batch. Returns false if there is a later run. */
    async publish(context, { run, number, texts, end }: PublishInput): Promise<boolean> {
      const found = await read(context);
      if (run < found.run) return false;
      const before = run > found.run ? restart(context, found, run) : found;
      if (number !== before.count) return true; // sent again
      context.set(toBatchKey(number), texts);
      write(context, before, { run, count: number + 1, end: end ?? before.end });
      return true;
    },

    /** The run before this one was interrupted. */
    async cut(context, run: number): Promise<void> {
      const before = await read(context);
      if (run > before.run) restart(context, before, run);
    },

    /** The turn is over: nothing more is published. */
    async close(context): Promise<void> {
      const before = await read(context);
      if (!before.end) write(context, before, { ...before, end: {} });
    },

    async watch(context, { run, from, awakeable }: AnswerCursor & { readonly awakeable: string }): Promise<void> {
      const found = await read(context);
      const isNews = found.count > from || found.end || (run !== undefined && run < found.run);
      if (isNews) context.resolveAwakeable(awakeable, null);
      else context.set<StoredAnswer>("answer", { ...found, waiting: [...found.waiting, awakeable] });
    },

    read: reads(async (context, { run, from }: AnswerCursor): Promise<AnswerPage> => {
      const found = await read(context);
      if (run !== undefined && run < found.run) return { run: found.run, batches: [], isCut: true };
      const until = Math.min(found.count, from + maxBatches);
      const batches: JsonText[][] = [];
      for (let number = from; number < until; number++)
        batches.push((await context.get<JsonText[]>(toBatchKey(number))) ?? []);
      return { run: found.run, batches, end: until === found.count ? found.end : undefined };
    }),

    clear: async (context): Promise<void> => context.clearAll(),
  });
}

const read = async (context: ObjectSharedContext): Promise<StoredAnswer> =>
  (await context.get<StoredAnswer>("answer")) ?? none;
