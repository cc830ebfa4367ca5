// The config that the tests of this folder serve, with `agentserve start`. LOAD_BOUNDS has limits and constants as JSON, LOAD_SECRET
// requires tokens, and LOAD_GATED holds the steps of the gated workflows until POST /gate.
import { memoryUsage } from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { andAll, andRace, andThen, defineAgent, defineConfig, defineTool, defineWorkflow, jwtAuth } from "agentserve";
import { echoModel } from "agentserve/models";
import * as v from "valibot";
import { withBounds } from "../harness/bounds.ts";

const { LOAD_BOUNDS = "{}", LOAD_SECRET, LOAD_GATED, LOAD_MORE = "0" } = process.env;
const gate = { ...Promise.withResolvers<void>(), isOpen: LOAD_GATED === undefined };
if (gate.isOpen) gate.resolve();

const lookUp = defineTool({
  description: "Looks up an order",
  inputSchema: v.object({ orderId: v.string(), tags: v.optional(v.array(v.string())) }),
  execute: async ({ orderId }) => ({ orderId, status: "shipped" }),
});
const support = defineAgent({
  id: "support",
  instructions: "You answer.",
  model: echoModel(),
  tools: { lookUp },
  maxSteps: 2,
});
const plain = defineAgent({ id: "plain:v1.0", instructions: "You repeat.", model: echoModel(), temperature: 0 });
/** Not a scripted model: that keeps its calls, which would look like a leak. */
const fails = (): Promise<never> => Promise.reject(new Error("The model fails"));
const failingModel = Object.assign(echoModel(), { doGenerate: fails, doStream: fails });
const failing = defineAgent({ id: "failing", instructions: "You fail.", model: failingModel });

/** Five steps of 20 ms. Each adds its number, so that a lost or repeated step shows in the result. */
let counting = defineWorkflow({ id: "counting", input: v.object({ n: v.number() }) }).andThen({
  id: "s1",
  execute: async ({ data }) => (await sleep(20), { n: data.n, steps: [1] }),
});
for (let step = 2; step <= 5; step++)
  counting = counting.andThen({
    id: `s${step}`,
    execute: async ({ data }) => (await sleep(20), { n: data.n, steps: [...data.steps, step] }),
  });

const refund = defineWorkflow({
  id: "refund",
  purpose: "Refunds an order once it is approved",
  input: v.object({
    orderId: v.pipe(v.string(), v.minLength(1), v.maxLength(40)),
    amount: v.number(),
    currency: v.optional(v.picklist(["EUR", "USD"])),
    lines: v.optional(v.array(v.object({ sku: v.string(), count: v.pipe(v.number(), v.integer()) }))),
  }),
  resumeSchema: v.object({ approved: v.boolean(), note: v.optional(v.nullable(v.string())) }),
})
  .andThen({
    id: "approve",
    execute: ({ data, resumeData, suspend }) =>
      resumeData ? { ...data, approved: resumeData.approved } : suspend(`Refund ${data.amount}?`),
  })
  .andThen({ id: "pay", execute: ({ data }) => ({ orderId: data.orderId, paid: data.approved ? data.amount : 0 }) });
const broken = defineWorkflow({ id: "broken" }).andThen({
  id: "fails",
  execute: () => Promise.reject(new Error("a detail that stays in the log")),
});
const draft = defineWorkflow({ id: "draft", input: v.object({ message: v.string() }) }).andAgent({
  id: "ask",
  agent: plain,
  prompt: ({ data }) => data.message,
});
const branches = defineWorkflow({ id: "branches", input: v.record(v.string(), v.unknown()) })
  .andTap({ id: "look", execute: ({ logger }) => logger.info("branches") })
  .andAll({
    id: "all",
    steps: [
      andThen({ id: "keys", execute: ({ data }) => Object.keys(data).length }),
      andRace({ id: "race", steps: [andThen({ id: "a", execute: () => 1 }), andThen({ id: "b", execute: () => 1 })] }),
      andAll({ id: "none", steps: [andThen({ id: "c", execute: async () => (await sleep(5), null) })] }),
    ],
  });
const nested = defineWorkflow({ id: "nested" }).andWorkflow({ id: "inner", workflow: branches });

/** Waits for the gate, which is open unless LOAD_GATED is set. */
const gated = defineWorkflow({ id: "gated" })
  .andThen({ id: "waits", execute: async () => (await gate.promise, 1) })
  .andThen({ id: "ends", execute: () => "done" });
/** Emits up to 5 MB each second until the gate opens. */
const noisy = defineWorkflow({ id: "noisy" }).andThen({
  id: "emits",
  async execute({ emit, signal }) {
    for (let n = 0; !gate.isOpen && !signal.aborted; n++) {
      emit({ type: "noise", n, pad: "x".repeat(50_000) });
      await sleep(10);
    }
    return "done";
  },
});
/** Takes an input of any size, and keeps it in memory for a while. */
const heavy = defineWorkflow({ id: "heavy", input: v.looseObject({ n: v.number() }) }).andThen({
  id: "holds",
  execute: async ({ data }) => (await sleep(50), { n: data.n, keys: Object.keys(data).length }),
});
/** Workflows that only make /doc and the lists longer. */
const more = Array.from({ length: Number(LOAD_MORE) }, (_, n) =>
  defineWorkflow({ id: `more-${n}`, purpose: "A long purpose. ".repeat(300) }).andThen({ id: "s", execute: () => n }),
);

const config = defineConfig({
  agents: [support, plain, failing],
  workflows: [counting, refund, broken, draft, branches, nested, gated, noisy, heavy, ...more],
  ...(LOAD_SECRET && { auth: jwtAuth({ secret: LOAD_SECRET, ownership: true }) }),
  configureApp(app) {
    app.post("/gate", () => {
      gate.isOpen = true;
      gate.resolve();
      return { open: true };
    });
    app.get("/memory", () => {
      for (let n = 0; n < 3; n++) globalThis.gc?.();
      return memoryUsage();
    });
  },
});

export default withBounds(JSON.parse(LOAD_BOUNDS), config);
