import { expect, it } from "vitest";
import { andAll, andForEach, andThen, defineWorkflow, type StepContext } from "agentserve";
import { createGates } from "../harness/gates.ts";
import { describeServer, type TestSocket } from "../harness/server.ts";

const gates = createGates();
const work = ({ stepId }: { stepId: string }): string => {
  if (stepId.includes("/1/")) throw new Error(`${stepId} is broken`);
  return stepId;
};
const loops = defineWorkflow({ id: "loops" })
  .andForEach({
    id: "each",
    items: () => [0, 1, 2],
    onError: "collect",
    map: (_, item) => item,
    step: andAll({
      id: "all",
      steps: [
        andThen({ id: "pay", execute: work }),
        andForEach({
          id: "inner",
          items: () => [0],
          step: andThen({ id: "deep", execute: ({ attempt }: StepContext) => attempt }),
        }),
      ],
    }),
  })
  .andDoUntil({ id: "loop", step: andThen({ id: "once", execute: () => 1 }) as never, condition: () => true })
  .andThen({ id: "gate", execute: ({ executionId }) => gates.pass(executionId) });

interface Span {
  spanId: string;
  parentSpanId?: string;
  name: string;
  status?: { code: string };
}

/** Reads the events of spans until one of this name has started or ended. */
async function readUntil(socket: TestSocket, until: string, events: { type: string; span: Span }[]): Promise<void> {
  for (;;) {
    const { type, data } = await socket.next();
    if (type !== "OBSERVABILITY_EVENT") continue;
    events.push(data);
    if (`${data.type} ${data.span.name}` === until) return;
  }
}

describeServer("spans of loops", { config: { workflows: [loops] }, only: ["dev"] }, (server) => {
  it("shows the steps of iterations under their loop, and leaves none open after its iteration", async () => {
    const socket = await server.socket("/ws/observability?entityType=workflow&entityId=loops");
    const events: { type: string; span: Span }[] = [];
    const executed = server.post("/workflows/loops/execute", { input: {}, options: { executionId: "spans-1" } });
    await readUntil(socket, "span:start step gate", events);
    const started = events.filter(({ type }) => type === "span:start").map(({ span }) => span);
    const ended = events.filter(({ type }) => type === "span:end").map(({ span }) => span);
    const nameOf = new Map(started.map(({ spanId, name }) => [spanId, name]));
    const tree = started.map(({ name, parentSpanId = "" }) => `${name} < ${nameOf.get(parentSpanId)}`);
    const item = (index: number): string[] => [
      `step each/${index}/all < step each`,
      `step each/${index}/pay < step each/${index}/all`,
      // Beside a branch that fails, another may not have begun.
      ...(index === 1 ? [] : [`step each/${index}/inner < step each/${index}/all`]),
    ];
    expect(tree).toEqual(expect.arrayContaining(["step each < workflow loops", ...[0, 1, 2].flatMap(item)]));
    expect(tree).toEqual(
      expect.arrayContaining([
        "step each/2/inner/0/deep < step each/2/inner",
        "step loop/0/once < step loop",
        "step loop < workflow loops",
      ]),
    );
    const open = started.filter(({ spanId }) => !ended.some((one) => one.spanId === spanId)).map(({ name }) => name);
    expect(open.filter((name) => name.startsWith("step "))).toEqual(["step gate"]);
    const failed = ended.filter(({ status }) => status?.code === "error").map(({ name }) => name);
    expect(failed).toContain("step each/1/pay");
    expect(failed.every((name) => name.startsWith("step each/1/"))).toBe(true);
    gates.open("spans-1");
    await executed;
    socket.close();
  });
});
