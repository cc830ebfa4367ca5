import * as v from "valibot";
import { expect } from "vitest";
import { andAgent, andWorkflow, defineAgent, defineTool, defineWorkflow } from "agentserve";
import { echoModel } from "agentserve/models";
import type { TestSocket } from "../../harness/server.ts";
import type { Block } from "./blocks.ts";
import { serveFor } from "./observed.ts";

/** The tree of spans, with some of their attributes: compared with those of a run that has all of them. */
export async function runSpanTree(block: Block): Promise<void> {
  const weather = defineTool({
    description: "Tells the weather",
    inputSchema: v.object({ city: v.string() }),
    execute: ({ city }) => ({ city, sky: "blue" }),
  });
  const model = { ...echoModel(), modelId: "gpt-5" };
  const helper = defineAgent({ id: "helper", instructions: "", model, tools: { weather } });
  const decide = defineWorkflow({ id: "approve" }).andThen({ id: "decide", execute: () => true });
  const trip = defineWorkflow({ id: "trip" }).andAll({
    id: "both",
    steps: [
      andAgent({ id: "ask", agent: helper, prompt: "What is the weather in Rome?" }),
      andWorkflow({ id: "sub", workflow: decide }),
    ],
  });
  const { server, headers } = await serveFor([trip], "ada");
  const socket = await server.socket("/ws/observability", { headers });
  await server.post("/workflows/trip/execute", { input: {}, options: { conversationId: "c" } }, { headers });
  const shown = parseTree(block.text);
  const spans = await readUntil(socket, shown[0]!.name);
  expect(toLines(spans)).toEqual(shown.map(({ depth, name }) => `${"  ".repeat(depth)}${name}`));
  for (const { name, attributes } of shown) {
    const known = spans.filter((span) => span.name === name).flatMap((span) => Object.keys(span.attributes));
    for (const wanted of attributes) {
      expect(
        known.some((key) => key === wanted || (wanted.endsWith(".") && key.startsWith(wanted))),
        `${name}: ${wanted}`,
      ).toBe(true);
    }
  }
}

interface Span {
  readonly name: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: Record<string, unknown>;
}

/** All spans that have ended when one of this name has, in the order in which they began. */
async function readUntil(socket: TestSocket, last: string): Promise<Span[]> {
  const begun: string[] = [];
  const ended: Span[] = [];
  while (!ended.some(({ name }) => name === last)) {
    const { type, data } = await socket.next();
    if (type !== "OBSERVABILITY_EVENT") continue;
    if (data.type === "span:start") begun.push(data.span.spanId);
    else ended.push(data.span);
  }
  return ended.toSorted((a, b) => begun.indexOf(a.spanId) - begun.indexOf(b.spanId));
}

/** One line a span, below the one that it stands in. Of those with the same name one is enough. */
function toLines(spans: readonly Span[], parent?: string, depth = 0): string[] {
  const isRoot = ({ parentSpanId }: Span) => !spans.some(({ spanId }) => spanId === parentSpanId);
  const inner = spans.filter((span) => (parent === undefined ? isRoot(span) : span.parentSpanId === parent));
  const names = [...new Set(inner.map(({ name }) => name))];
  return names.flatMap((name) => {
    const below = inner.filter((span) => span.name === name).flatMap(({ spanId }) => toLines(spans, spanId, depth + 1));
    return [`${"  ".repeat(depth)}${name}`, ...new Set(below)];
  });
}

/** Lines of the drawing: `└─ step both    agentserve.step.id, .type`, where `.type` stands for `agentserve.step.type`. */
function parseTree(text: string): { depth: number; name: string; attributes: string[] }[] {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => {
      const [, indent = "", name = "", rest = ""] = /^([ │├└─]*)(.+?)(?: {2,}(.+))?$/.exec(line)!;
      const listed = rest.split(", ").filter((word) => word !== "" && word !== "…");
      const stem = listed[0]?.replace(/\.\w+$/, "") ?? "";
      const attributes = listed.map((word) => (word.startsWith(".") ? stem + word : word.replace(/…$/, "")));
      return { depth: indent.length / 3, name, attributes };
    });
}
