import { setTimeout as sleep } from "node:timers/promises";
import { createProvider, type Exchange, type Provider } from "../../agents/provider/provider.ts";

/** The tools that the model calls: one after the other, two of them at the same time. */
export const plan = [["one"], ["two", "three"], ["four"], ["five"]] as const;
export const toolNames: readonly string[] = plan.flat();

/** A request to the provider: the model call that it is of its turn, from 0, and the results of tools that it carries. */
export interface Request {
  readonly life: number;
  readonly call: number;
  /** By the id of the tool call. */
  readonly results: ReadonlyMap<string, string>;
}

export interface TurnProvider {
  readonly baseURL: string;
  /** The requests of a turn, whose prompt is its id. */
  requests(turn: string): Request[];
  close(): Promise<void>;
}

/** A provider whose model calls every tool of the plan, and answers with their results. Its ids differ for each request. */
export async function createTurnProvider(): Promise<TurnProvider> {
  const provider: Provider = await createProvider({ planned: answer });
  return {
    baseURL: provider.baseURL,
    requests: (turn) => provider.asked(turn).map(toRequest),
    close: () => provider.close(),
  };
}

/** What a later turn is shown of a turn: whether it was asked, and its answer. */
export interface Recalled {
  readonly isAsked: boolean;
  readonly answer?: string | undefined;
}

/** Finds the turn that a prompt asks for in the messages before it. */
function recall({ body: { messages } }: Exchange, turn: string): Recalled {
  const texts = messages.map(({ role, content }) => ({ role, text: typeof content === "string" ? content : "" }));
  const asked = texts.flatMap(({ role, text }, place) => (role === "user" && text === turn ? place : []));
  if (asked.length > 1) throw new Error(`${turn} is there ${asked.length} times`);
  const rest = texts.slice((asked[0] ?? -1) + 1);
  const own = rest.slice(
    0,
    rest.findIndex(({ role }) => role === "user"),
  );
  const { role, text } = own.at(-1) ?? {};
  return { isAsked: asked.length > 0, answer: role === "assistant" ? text : undefined };
}

async function answer(exchange: Exchange): Promise<void> {
  const [, recalled] = /^recall (.*)$/.exec(exchange.prompt) ?? [];
  if (recalled !== undefined) return exchange.say({ text: [JSON.stringify(recall(exchange, recalled))] });
  const { call, results } = toRequest(exchange);
  await sleep(Math.random() * 20); // so that a kill finds it at work
  const tools = plan[call];
  if (!tools) return exchange.say({ text: [JSON.stringify([...results.values()].toSorted())] });
  const input = JSON.stringify({ turn: exchange.prompt });
  await exchange.say({
    toolCalls: tools.map((name) => ({ id: `call-${call}-${crypto.randomUUID()}`, name, arguments: input })),
  });
}

function toRequest({ body: { messages }, headers }: Exchange): Request {
  const own = messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1);
  const results = own.flatMap(({ role, tool_call_id: id, content }) =>
    role === "tool" ? [[String(id), String(content)] as const] : [],
  );
  const call = own.filter(({ role }) => role === "assistant").length;
  return { life: Number(headers["x-life"]), call, results: new Map(results) };
}

/** The model call that has asked for a tool. */
export const callOf = (toolCallId: string): number => Number(toolCallId.split("-")[1]);
