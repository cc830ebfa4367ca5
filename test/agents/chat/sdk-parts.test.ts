// Compares the chunks of POST /agents/:id/chat with those of the SDK's own `streamText`, for the same answers of a model and the same
// tools. Seen to fail: an empty delta that is sent, the id of a text that is used twice, a call of a provider or a denial that
// comes late, a first result of a generator that is not sent.
import type { LanguageModelV4CallOptions, LanguageModelV4Prompt, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { defineAgent } from "agentserve";
import { scriptedModel, type ScriptedModel } from "agentserve/models";
import * as sdk from "ai";
import { convertToModelMessages, isStepCount, toUIMessageStream, type ModelMessage, type UIMessage } from "ai";
import { expect, it, onTestFinished } from "vitest";
import { Random } from "../../faults/kills/plan.ts";
import { seed } from "../../harness/seed.ts";
import { startTestServer, type TestServer } from "../../harness/server.ts";
import { bySize } from "../../harness/size.ts";
import { isLowestSdk } from "../lowest-sdk.ts";
import { finish, heard, most, ScriptedCall, tools } from "./sdk-scripts.ts";

type Chunk = Record<string, any> & { type: string };
type Script = LanguageModelV4StreamPart[][];
const instructions = "Be kind.";
const maxSteps = 4;
const denied = "This tool needs an approval, and a call without a stored conversation cannot wait for one";

/** The function for one reader. The other one repeats the metadata of a text in each of its deltas. */
const streamTextOnce = sdk.experimental_streamTextLowMemory ?? sdk.streamText;

/** The answer of the SDK alone. */
async function askSdk(script: Script, messages: ModelMessage[], isStored: boolean) {
  const model = scriptedModel(script);
  heard.splice(0);
  const toolApproval = {
    guarded: () => ({ type: "denied", reason: denied }) as const,
    choosy: ({ n }: { n: number }) => (n > 4 ? ({ type: "denied", reason: denied } as const) : undefined),
  };
  const { stream } = streamTextOnce({
    model,
    instructions,
    messages,
    tools,
    stopWhen: isStepCount(maxSteps),
    maxRetries: 0,
    onError() {},
    ...(!isStored && { toolApproval }),
  } as Parameters<typeof sdk.streamText>[0]);
  const onError = (error: unknown) => (error instanceof Error ? error.message : String(error));
  const chunks: Chunk[] = [];
  for await (const chunk of toUIMessageStream({ stream, sendSources: true, onError })) chunks.push(chunk as Chunk);
  return { chunks: chunks.map(toJson), model, heard: heard.splice(0) };
}
const toJson = (chunk: Chunk): Chunk => JSON.parse(JSON.stringify(chunk));

let playing: ScriptedModel;
const agent = defineAgent({
  id: "a",
  instructions,
  model: { ...scriptedModel([]), doStream: (options: LanguageModelV4CallOptions) => playing.doStream(options) },
  tools: tools as never,
  maxSteps,
  maxRetries: 0,
});

/** The answer of a server. An error before the first part is one part as well. */
async function askServer(server: TestServer, script: Script, input: UIMessage[], conversationId: string | undefined) {
  playing = scriptedModel(script);
  heard.splice(0);
  const { status, events } = await server.post("/agents/a/chat", { input, options: { conversationId } });
  const chunks: Chunk[] = status === 200 ? (events as Chunk[]) : [{ type: "start" }, { type: "error" }];
  return { chunks, model: playing, heard: heard.splice(0) };
}

const isOfCall = ({ type }: Chunk): boolean =>
  ["tool-input-available", "tool-input-error", "tool-approval-request", "tool-approval-response"].includes(type) ||
  type.startsWith("tool-output-");
const isCall = ({ type }: Chunk): boolean => type === "tool-input-available" || type === "tool-input-error";

/**
 * The order that may differ: within a step, the server sends the calls that it or the client runs, and all about them, after the
 * words of the model. Calls come in the order of the model, then their approvals and results. Those of different calls come as
 * they end, in any order.
 */
function toOrdered(chunks: readonly Chunk[]): Chunk[] {
  const ordered: Chunk[] = [];
  const own = new Set<string>();
  let moved: Chunk[] = [];
  const flush = (): void => {
    const rest = moved.filter((chunk) => !isCall(chunk));
    const ofCall = Map.groupBy(rest, ({ toolCallId, approvalId }) => toolCallId ?? callOf(approvalId, rest));
    ordered.push(...moved.filter(isCall), ...[...ofCall].toSorted().flatMap(([, some]) => some));
    moved = [];
  };
  for (const chunk of chunks) {
    if (chunk.type === "start-step") own.clear(); // providers use ids again
    if (isCall(chunk) && !(chunk.providerExecuted && chunk.type === "tool-input-available")) own.add(chunk.toolCallId);
    const isMoved = isOfCall(chunk) && (chunk.type === "tool-approval-response" || own.has(chunk.toolCallId));
    if (["finish-step", "error", "finish"].includes(chunk.type)) flush();
    (isMoved ? moved : ordered).push(chunk);
  }
  flush();
  return ordered;
}
const callOf = (approvalId: string, chunks: readonly Chunk[]): string =>
  chunks.find((chunk) => chunk.type === "tool-approval-request" && chunk.approvalId === approvalId)?.toolCallId;

/** Replaces ids that are new in each answer: of the message, of approvals, and of texts whose id was used before. */
function toNamed(chunks: readonly Chunk[]): Chunk[] {
  const names = new Map<string, string>();
  const nameOf = (kind: string, id: string): string => {
    const key = `${kind} ${id}`;
    if (!names.has(key)) names.set(key, `${kind}-${names.size}`);
    return names.get(key)!;
  };
  const texts: Record<string, string> = {};
  return chunks.map((chunk) => {
    const { type, id, approvalId } = chunk;
    if (type === "start") return { type };
    if (type === "error") return { type }; // the server's words are its own
    const [kind = "", place] = type.split("-");
    if (kind === "text" || kind === "reasoning") {
      if (place === "start") expect(texts[`${kind} ${id}`], `the id ${id} is used twice`).toBeUndefined();
      texts[`${kind} ${id}`] = id;
      return { ...chunk, id: nameOf(kind, id) };
    }
    return approvalId === undefined ? chunk : { ...chunk, approvalId: nameOf("approval", approvalId) };
  });
}

/** The chunks that the server must send. An answer ends at an error, without the calls of the step that are not run. */
function toExpected(chunks: readonly Chunk[], script: Script): Chunk[] {
  let step = -1;
  const end = chunks.findIndex(({ type }) => {
    if (type === "start-step") step++;
    // The SDK takes an answer without an end for a whole one. For the server it was cut off.
    return type === "error" || (type === "finish-step" && !script[step]!.some((part) => part.type === "finish"));
  });
  const ordered = toOrdered(end < 0 ? chunks : chunks.slice(0, end));
  if (end < 0) return toNamed(ordered);
  // The calls of the step that has failed are not run, and not shown.
  const ended = ordered.findLastIndex(({ type }) => type === "finish-step");
  const begun = ordered.findIndex(({ type }, index) => index > ended && type === "start-step");
  const last = begun < 0 ? ordered.length : begun;
  const calls = ordered.flatMap((chunk, index) => {
    const isOwn = index > last && isCall(chunk) && !(chunk.providerExecuted && chunk.type === "tool-input-available");
    return isOwn ? [chunk.toolCallId as string] : [];
  });
  const kept = ordered.filter((chunk, index) => index < last || !isOfCall(chunk) || !calls.includes(chunk.toolCallId));
  const rest = kept.filter(({ type }, index) => index < last || type !== "tool-approval-response");
  return toNamed(withoutEmpty([...rest, { type: "error" }]));
}

/** The SDK does not begin a step of a stream without any part. For the server, its end is an error, which is a part. */
const withoutEmpty = (chunks: readonly Chunk[]): Chunk[] =>
  chunks.filter(({ type }, index) => type !== "start-step" || chunks[index + 1]?.type !== "error");

/** Results of tools are in the order of their calls, or of their ends. */
const toPrompts = ({ calls }: ScriptedModel): LanguageModelV4Prompt[] =>
  calls.map(({ prompt }) =>
    JSON.parse(JSON.stringify(prompt)).map((message: any) =>
      message.role === "tool"
        ? { ...message, content: message.content.toSorted((a: any, b: any) => (a.toolCallId < b.toolCallId ? -1 : 1)) }
        : message,
    ),
  );

const question = { role: "user", content: "Go" } as const;
const said = { id: "q", role: "user", parts: [{ type: "text", text: "Go" }] } satisfies UIMessage;

it.skipIf(isLowestSdk)("has the chunks of streamText, for generated answers", { timeout: 600_000 }, async () => {
  const server = await startTestServer("dev", { config: { agents: [agent] } });
  const random = new Random(seed);
  const seen = new Set<string>();
  for (let n = 0; n < bySize(150, 1_000); n++) {
    const script = [
      ...Array.from({ length: maxSteps }, () => new ScriptedCall(random).toParts()),
      [{ type: "stream-start", warnings: [] }, finish()],
    ] as Script;
    const isStored = random.chance(0.5);
    const alone = await askSdk(script, [question], isStored);
    const own = await askServer(server, script, [said], isStored ? `c${n}` : undefined);
    const found = toOrdered(own.chunks);
    const hint = `script ${n} of seed ${seed}: ${JSON.stringify(script)}`;
    expect(toNamed(withoutEmpty(found)), hint).toEqual(toExpected(alone.chunks, script));
    expect(
      found.filter((chunk) => !isOfCall(chunk) || isCall(chunk)),
      hint,
    ).toEqual(own.chunks.filter((chunk) => !isOfCall(chunk) || isCall(chunk)));
    if (!own.chunks.some(({ type }) => type === "error")) {
      expect(toPrompts(own.model), hint).toEqual(toPrompts(alone.model));
      expect(own.heard.toSorted(), hint).toEqual(alone.heard.toSorted());
    }
    for (const { type } of own.chunks) seen.add(type);
  }
  const all = "text-delta reasoning-delta source-url source-document file reasoning-file custom error".split(" ");
  const ofTools = ["input-start", "input-delta", "input-available", "input-error", "output-available", "output-error"];
  const ofApprovals = ["tool-approval-request", "tool-approval-response", "tool-output-denied"];
  expect([...seen]).toEqual(expect.arrayContaining([...all, ...ofTools.map((one) => `tool-${one}`), ...ofApprovals]));
});

it.skipIf(isLowestSdk)("has the chunks of streamText in the turn that continues decided calls", async () => {
  const call = (toolCallId: string, toolName: string, n: number): LanguageModelV4StreamPart[] => [
    { type: "tool-call", toolCallId, toolName, input: JSON.stringify({ n }) },
  ];
  const script: Script = [
    [
      ...call("c1", "guarded", 1),
      ...call("c2", "guarded", 2),
      ...call("c3", "choosy", 7),
      ...call("c4", "guarded", 8),
      finish("tool-calls"),
    ],
    [
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: "Done." },
      { type: "text-end", id: "1" },
      finish(),
    ],
  ];
  const server = await startTestServer("dev", { config: { agents: [agent] } });
  const first = await askServer(server, script.slice(0, 1), [said], "c");
  const ids = Object.fromEntries(
    first.chunks.flatMap(({ type, toolCallId, approvalId }) =>
      type === "tool-approval-request" ? [[toolCallId, approvalId]] : [],
    ),
  );
  const decide = (toolCallId: string, type: `tool-${string}`, n: number, approved: boolean) =>
    ({
      type,
      toolCallId,
      state: "approval-responded",
      input: { n },
      approval: { id: ids[toolCallId], approved },
    }) as any;
  const answer: UIMessage = {
    id: first.chunks[0]!.messageId,
    role: "assistant",
    parts: [
      { type: "step-start" },
      decide("c1", "tool-guarded", 1, true),
      decide("c2", "tool-guarded", 2, false),
      decide("c3", "tool-choosy", 7, true),
      decide("c4", "tool-guarded", 8, true),
    ],
  };
  // The input of the last call is not valid any more.
  most.n = 5;
  onTestFinished(() => void (most.n = 9));
  const own = await askServer(server, script.slice(1), [said, answer], "c");
  const alone = await askSdk(script.slice(1), await convertToModelMessages([said, answer], { tools }), true);
  // The results of tools that run at once come as they end, and the error of a call that is not run after them.
  const isResult = ({ type }: Chunk): boolean => type === "tool-output-available" || type === "tool-output-error";
  const sorted = (chunks: readonly Chunk[]): Chunk[] => {
    const results = chunks.filter(isResult).toSorted((a, b) => (a.toolCallId < b.toolCallId ? -1 : 1));
    return chunks.map((chunk) => (isResult(chunk) ? results.shift()! : chunk));
  };
  expect(sorted(toNamed(own.chunks))).toEqual(sorted(toNamed(alone.chunks)));
  expect(toPrompts(own.model)).toEqual(toPrompts(alone.model));
});
