import type { InvocationId, ObjectContext, ObjectSharedContext } from "@restatedev/restate-sdk";
import type { LastTurn } from "../../../engine/contract/conversations.ts";
import type { Execution } from "../../../engine/execution.ts";
import type { FoundCall, PendingCall } from "../../../engine/stored/pending-calls.ts";
import type { Renaming } from "../../../engine/stored/stored-conversation.ts";
import { shortHandlers, type ObjectService, type ServiceParts } from "../calls.ts";
import type {
  EndedTurn,
  InputOfPlace,
  PageInput,
  PlaceCalls,
  PlaceResult,
  RunInput,
  StartInput,
  WatchInput,
} from "./inputs.ts";
import { changeCalls, readCall, readCalls } from "./calls.ts";
import { createInfo, findDeleted, readConversation } from "./info.ts";
import { Line, sweepMs, type LineNews, type StoredLine, type StoredPlace, type SyncInput } from "./line.ts";
import { countRun, toTurn, type LineTurn, type TurnRun } from "./line-turn.ts";
import {
  changeMessages,
  readModels,
  readPage,
  readPriorMessages,
  replaceMessages,
  type PartialPage,
} from "./messages.ts";

/** Time limit for a runner to publish the rest of its answer. */
const publishMs = 5_000;

/**
 * The object of one conversation: its line of turns, and its messages. Every handler is short. Beside the keys of `messages`
 * and `info` it has `line`, `execution` (of the running turn) and `last` (the last turn that was ended).
 */
export function createConversation(parts: ServiceParts): ObjectService {
  const { sdk, calls, object, reads } = parts;
  const info = createInfo(parts);

  async function writeLine(context: ObjectContext, line: Line): Promise<void> {
    const { places, sweep } = line.settle();
    if (line.ended.length + line.handedOver.length > 0) await finishTurns(context, line);
    if (!line.needsSweep && sweep !== undefined) {
      // Without it, a sweep would be left behind when the last replica is stopped.
      context.invocation(sweep as InvocationId).cancel();
    }
    if (places.length === 0) return context.clear("line");
    if (!line.needsSweep) return context.set<StoredLine>("line", { places });
    const next = sweep ?? (await calls.send(context, "conversation/sweep", null, { delayMs: sweepMs }));
    context.set<StoredLine>("line", { places, sweep: next });
  }

  /** Forgets ended turns, and lets Restate run the turns of lost replicas. */
  async function finishTurns(context: ObjectContext, { ended, handedOver }: Line): Promise<void> {
    const at = await context.date.now();
    for (const { id, name = "", turn } of ended) {
      if (!turn) continue;
      const { answerId, questionId, records, isHeard } = turn;
      context.clear("execution");
      context.set<EndedTurn>("last", { id: name, place: id, answerId, questionId, endedAt: at });
      calls.tell(context, "records/clear", null, { key: records });
      if (isHeard) calls.tell(context, "answer/close", null, { key: name, delayMs: publishMs });
    }
    for (const { id, name: turnId = "", turn } of handedOver) {
      if (!turn) continue;
      const { workflowId, records } = turn;
      const input: RunInput = { key: context.key, id, turnId, workflowId, records, at };
      calls.tell(context, "turn/run", input, { key: turnId });
      cut(context, turnId, turn, turn.runs + 1);
    }
  }

  /** Ends the streams of an earlier run's readers. */
  function cut(context: ObjectContext, turnId: string, { isHeard }: LineTurn, run: number): void {
    if (isHeard) calls.tell(context, "answer/cut", run, { key: turnId });
  }

  async function change<T>(context: ObjectContext, act: (line: Line) => T): Promise<T> {
    const line = await readLine(context);
    const result = act(line);
    await writeLine(context, line);
    return result;
  }
  /** Changes the running turn, if it has this place or this id. Resolves to null if it is over. */
  async function changeTurn<T>(
    context: ObjectContext,
    { place, turnId }: { readonly place?: string; readonly turnId?: string },
    act: (turn: LineTurn, turnId: string) => T,
  ): Promise<T | null> {
    const line = await readLine(context);
    const { turn, id, name = "" } = line.running ?? {};
    if (!turn || (id !== place && name !== turnId)) return null;
    const result = act(turn, name);
    await writeLine(context, line);
    return result;
  }

  return object("conversation", shortHandlers, {
    /** Applies the changes of a replica to the line, and tells it who has the turn. */
    async sync(context, input: SyncInput): Promise<LineNews> {
      const news = await change(context, (line) => line.sync(input));
      return { ...news, deleted: await findDeleted(context, news.gone) };
    },

    watch: (context, { id, awakeable }: WatchInput): Promise<void> =>
      change(context, (line) => line.watch(id, awakeable)),

    sweep: (context): Promise<void> => change(context, (line) => line.sweep(context.request().id)),

    history: readForHead<"history">((context, { until, maxBytes }, { name }) =>
      readPriorMessages({ sdk, context }, { name, until }, maxBytes),
    ),
    models: readForHead<"models">((context, { numbers }) => readModels({ sdk, context }, numbers)),
    calls: readForHead<"calls">((context, { calls: ids }) => readCalls({ sdk, context }, ids)),

    keep: readForHead<"keep">((context, { execution }) => {
      context.set("execution", execution);
      return true;
    }),
    async store(context, input: InputOfPlace<"store">): Promise<LineNews | null> {
      const { id, until, number, messages, facts, begins, isLast } = input;
      const line = await readLine(context);
      const { head } = line;
      if (head?.id !== id) {
        const last = await context.get<EndedTurn>("last");
        return last?.place === id ? {} : null; // sent again
      }
      if (number <= (head.stored ?? 0)) return {}; // sent again, or late
      if (messages) {
        const state = { sdk, context };
        const { count, gone } = await replaceMessages(state, { name: head.name, until }, messages);
        await info.update(context, count, facts);
        await changeMessages(state, input.changed ?? []);
        await changeCalls(state, { gone, decided: input.decided, waiting: input.waiting });
        for (const { id: key } of input.waiting?.calls.filter(({ type }) => type === "execution") ?? [])
          calls.tell(context, "register/expect", context.key, { key });
      }
      head.stored = number;
      if (begins) head.turn = toTurn(begins.turn);
      if (begins?.execution) context.set("execution", begins.execution);
      if (isLast && head.turn) line.leave([id]);
      await writeLine(context, line);
      return { head: line.head?.id };
    },

    rename: (context, renaming: Renaming): Promise<boolean> => info.rename(context, renaming),
    expire: (context): Promise<void> => info.expire(context),
    remove: (context): Promise<readonly string[] | null> => info.remove(context),
    forget: (context): Promise<void> => info.forget(context),

    find: reads(readConversation),

    call: reads((context, id: string): Promise<(PendingCall & Pick<FoundCall, "origin">) | null> =>
      readCall({ sdk, context }, id),
    ),

    /** True if a place was dropped together with its conversation. */
    isDeleted: reads(
      async (context: ObjectSharedContext, id: string): Promise<boolean> =>
        (await findDeleted(context, [id])).length > 0,
    ),

    /** Keeps an awakeable until there is news for the runner of a turn. */
    orders: (context, { id, ...orders }: WatchInput & { readonly isPublishing: boolean }): Promise<void> =>
      change(context, (line) => line.watchOrders(id, orders)),

    /** Resolves to false if the turn is over. */
    stop: async (context, turnId: string): Promise<boolean> =>
      (await changeTurn(context, { turnId }, (turn) => (turn.isStopped = true))) ?? false,

    /** A replica that does not run a turn has a reader. Resolves to false if the turn is over. */
    hear: async (context, turnId: string): Promise<boolean> =>
      (await changeTurn(context, { turnId }, (turn) => (turn.isHeard = true))) ?? false,

    /** Restate runs a turn, on a replica. Null: the turn is over. */
    start: (context, { id: place, recorded }: StartInput): Promise<TurnRun | null> =>
      changeTurn(context, { place }, (turn, turnId) => {
        const run = countRun(turn, recorded);
        cut(context, turnId, turn, run.run);
        return run;
      }),

    /** A living process was cut off from a run: its interruption is not a crash. */
    released: async (context, place: string): Promise<void> =>
      void (await changeTurn(context, { place }, (turn) => turn.crashes--)),

    end: (context, id: string): Promise<void> => change(context, (line) => line.leave([id])),

    /** The execution of a turn; null if the turn is over. */
    execution: reads(async (context, id: string): Promise<Execution | null> => {
      const line = await context.get<StoredLine>("line");
      return line?.places[0]?.id === id ? context.get<Execution>("execution") : null;
    }),

    last: reads(async (context): Promise<LastTurn | null> => {
      const { turn, name: id = "" } = (await context.get<StoredLine>("line"))?.places[0] ?? {};
      if (turn) return { id, answerId: turn.answerId, questionId: turn.questionId };
      return context.get<EndedTurn>("last");
    }),

    page: reads((context, { from, ...options }: PageInput): Promise<PartialPage> =>
      readPage({ sdk, context }, options, from),
    ),
  });
}

/** Reads something for a place that has the turn. Resolves to null for any other. */
const readForHead =
  <Name extends keyof PlaceCalls, T = PlaceResult<Name>>(
    read: (context: ObjectContext, input: InputOfPlace<Name>, head: StoredPlace) => T | Promise<T>,
  ) =>
  async (context: ObjectContext, input: InputOfPlace<Name>): Promise<T | null> => {
    const { head } = await readLine(context);
    return head?.id === input.id ? read(context, input, head) : null;
  };

async function readLine(context: ObjectContext): Promise<Line> {
  const stored = await context.get<StoredLine>("line");
  return new Line(
    stored,
    (awakeable, news) => context.resolveAwakeable(awakeable, news),
    () => context.rand.uuidv4(),
  );
}
