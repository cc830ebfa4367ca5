// The process runs out of memory again and again, with executions of all sizes in flight.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { together, within } from "../../harness/waiting.ts";
import { Random } from "../kills/plan.ts";
import { createCrashing, type Crashing, type Life } from "./crashing.ts";

const timeout = bySize(600_000, 7_200_000);
/** The deaths by memory that are wanted, and the executions in flight at the first of each round. */
const deaths = bySize(2, 5);
const count = bySize(40, 300);
const heapMb = 192;
const reason = "Interrupted 3 times by a crash";

const config = `import { defineConfig } from "agentserve";
export default defineConfig({ server: { port: 0, limits: { drainMs: 300, bodyBytes: 5_000_000 } } });
`;
/** `go.<round>` is a file: steps wait for it, so that all executions of a round are in flight when the hogs begin. */
const workflows = `import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { andThen, defineWorkflow } from "agentserve";
const made = (size) => ({ text: "x".repeat(size) });
const gone = async (round) => {
  while (!existsSync("go." + round)) await sleep(10);
};
const part = (place) =>
  andThen({
    id: "part" + place,
    async execute({ input }) {
      const { sizes, paces } = input;
      await sleep(paces[place]);
      return made(sizes[place]);
    },
  });
export const mixed = defineWorkflow({ id: "mixed" })
  .andThen({
    id: "first",
    async execute({ data }) {
      await gone(data.round);
      await sleep(data.paces[0]);
      return made(data.sizes[0]);
    },
  })
  .andAll({ id: "all", steps: [part(1), part(2), part(3)] })
  .andThen({
    id: "join",
    execute({ data, input, getStepData }) {
      const { pad } = input;
      return [pad, getStepData("first").text, ...data.map(({ text }) => text)].map(({ length }) => length);
    },
  });
let heavy = defineWorkflow({ id: "heavy" });
for (let place = 0; place < 20; place++)
  heavy = heavy.andThen({
    id: "s" + place,
    async execute({ input }) {
      await gone(input.round);
      return made(4_000_000);
    },
  });
const hog = defineWorkflow({ id: "hog" }).andThen({
  id: "eats",
  async execute({ data }) {
    await gone(data.round);
    const kept = [];
    for (;;) {
      kept.push(new Array(500_000).fill(0.5));
      await sleep(0);
    }
  },
});
export { heavy, hog };
`;

interface Planned {
  readonly id: string;
  readonly workflow: string;
  readonly input: Record<string, unknown>;
  /** What its state must be in the end. */
  readonly end: Record<string, unknown>;
}

const sizes = [
  ...Array<number>(40).fill(1_000),
  ...Array<number>(30).fill(16_000),
  ...Array<number>(15).fill(100_000),
  ...Array<number>(9).fill(1_000_000),
  ...Array<number>(6).fill(4_000_000),
];
/** Small enough that all inputs of a round are admitted while the steps wait: together they are less than inFlightBytes. */
const padSizes = sizes.filter((size) => size <= 100_000);

/** The hogs come first, so that they are not in the queue when the others wait for them. */
function planRound(round: number, random: Random): Planned[] {
  const hogs = Array.from({ length: bySize(1, 2) }, (_, index) => ({
    id: `hog.${round}.${index}`,
    workflow: "hog",
    input: { round },
    end: { status: "suspended", suspension: expect.objectContaining({ reason }) },
  }));
  const heavy = {
    id: `heavy.${round}`,
    workflow: "heavy",
    input: { round },
    end: { status: "error" },
  };
  const mixed = Array.from({ length: count - hogs.length - 1 }, (_, index) => {
    const made = Array.from({ length: 4 }, () => random.pick(...sizes) + random.between(0, 999));
    const pad = random.pick(...padSizes) + random.between(0, 999);
    const paces = made.map(() => random.between(0, 300));
    return {
      id: `mixed.${round}.${index}`,
      workflow: "mixed",
      input: { round, paces, sizes: made, pad: "x".repeat(pad) },
      end: { status: "completed", result: [pad, ...made] },
    };
  });
  return [...hogs, heavy, ...mixed];
}

it(
  `ends everything as it should after ${deaths} deaths by memory with ${count} executions in flight`,
  { timeout },
  async (test) => {
    const flags = [`--max-old-space-size=${heapMb}`];
    const project = createCrashing(test, { "agents.config.ts": config, "workflows/all.ts": workflows }, flags);
    const world = new World(project);
    const random = new Random(seed);
    try {
      for (let round = 0; world.deaths < deaths; round++) await playRound(world, planRound(round, random), round);
    } catch (error) {
      throw new Error(`SEED=${seed}, after ${world.deaths} deaths by memory`, { cause: error });
    }
    console.log(`oom: ${world.deaths} deaths, ${world.lives} starts, SEED=${seed}`);
  },
);

async function playRound(world: World, plans: readonly Planned[], round: number): Promise<void> {
  const [hogs, others] = [plans.filter(({ workflow }) => workflow === "hog"), plans];
  for (const plan of hogs) await world.begin(plan);
  await together(8, others.slice(hogs.length), (plan) => world.begin(plan));
  world.project.write(`go.${round}`, "");
  for (const plan of plans) {
    const state = await world.settled(plan);
    const { input: _, context: __, ...shown } = state;
    expect(shown, plan.id).toMatchObject(plan.end);
    // The log has the message, whether or not every client is shown it.
    if (plan.workflow === "heavy")
      expect(`${state.error} ${world.project.logged(plan.id)}`, plan.id).toContain("executionBytes");
  }
}

/** The server, started again each time it has run out of memory. */
class World {
  readonly project: Crashing;
  deaths = 0;
  lives = 0;
  #life: Promise<Life> | undefined;

  constructor(project: Crashing) {
    this.project = project;
  }

  async #start(): Promise<Life> {
    // The third crash suspends a hog, so a round takes no more than a few.
    if (++this.lives > 4 * deaths + 12) throw new Error(`It was started ${this.lives - 1} times, and is not done`);
    const life = await this.project.start();
    void this.#bury(life);
    return life;
  }

  async #bury({ ended }: Life): Promise<void> {
    const { signal, stderr } = await ended;
    this.#life = undefined;
    if (signal === "SIGABRT" && /heap (limit|out of memory)/i.test(stderr)) this.deaths++;
  }

  /** Undefined when the process ended before it answered. */
  async #ask(path: string, json?: unknown): Promise<Awaited<ReturnType<Life["get"]>> | undefined> {
    const life = await (this.#life ??= this.#start());
    try {
      return await (json === undefined
        ? life.get(path)
        : life.post(path, json, { headers: { prefer: "respond-async" } }));
    } catch (error) {
      // A process that runs out of memory stops to answer some time before it ends.
      const { signal, stderr } = await within(
        life.ended,
        () => `the end of a server that failed with ${String(error)}`,
      );
      if (signal !== "SIGABRT") throw new Error(`Ended by ${signal}:\n${stderr.slice(-2_000)}`, { cause: error });
      return undefined;
    }
  }

  async begin({ id, workflow, input }: Planned): Promise<void> {
    const deadline = performance.now() + patienceMs;
    for (;;) {
      const answer = await this.#ask(`/workflows/${workflow}/execute`, { input, options: { executionId: id } });
      // 409: an earlier request began it, and its answer was lost.
      if (answer?.status === 202 || answer?.status === 409) return;
      if (answer && answer.status !== 503) throw new Error(`${id}: ${answer.status} ${answer.text}`);
      if (performance.now() > deadline) throw new Error(`${id} is not admitted`);
      await sleep(20);
    }
  }

  async settled({ id, workflow }: Planned): Promise<any> {
    let deadline = performance.now() + patienceMs;
    let { lives } = this;
    for (;;) {
      const answer = await this.#ask(`/workflows/${workflow}/executions/${id}/state`);
      if (answer && answer.status !== 200) throw new Error(`${id}: ${answer.status} ${answer.text.slice(0, 200)}`);
      if (answer && answer.body.data.status !== "running") return answer.body.data;
      if (lives !== this.lives) deadline = performance.now() + patienceMs;
      ({ lives } = this);
      if (performance.now() > deadline) throw new Error(`${id} is still running`);
      await sleep(50);
    }
  }
}
