// Each of these changes of the engine makes tests of this file fail: a beginning acknowledged before its commit, or
// committed later than what follows from it; a step started before the row of the one before is committed; a status
// committed before its row, or outside of its transaction; a recovery that forgets a row, or starts what is recorded;
// events told before their commit, or numbered anew after a recovery; a resume that is followed and not written.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { bySize } from "../../harness/size.ts";
import { killAtRandom } from "./at-random.ts";
import { Random, smallPlans } from "./plan.ts";
import { Lives } from "./process.ts";
import { points, toName, type Point } from "./points.ts";
import { noFigures, World, type Figures } from "./world.ts";

const seed = Number(process.env["SEED"] ?? Date.now() % 1_000_000);
const timeout = 600_000;
const folder = mkdtempSync(join(tmpdir(), "agentserve-kills-"));
const figures = { atRandom: noFigures(), atPoints: noFigures() };
let worlds = 0;

function createWorld(counted: Figures): World {
  const own = join(folder, String(++worlds));
  mkdirSync(own);
  return new World(new Lives(own), counted);
}

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  const show = (counted: Figures) => Object.entries(counted).map(([name, value]) => `${name} ${value}`);
  for (const [when, counted] of Object.entries(figures)) console.log(`kills ${when}: ${show(counted).join(", ")}`);
  console.log(`SEED=${seed}`);
});

describe("kill -9 at random moments, with 50 executions in flight", () => {
  const kills = bySize(3, 200);
  // Some of them are always between two executions.
  const crew = 64;
  const { atRandom } = figures;

  it("loses nothing that was acknowledged, and runs nothing again that was recorded", { timeout }, async () => {
    const world = createWorld(atRandom);
    onTestFinished(() => world.close());
    await killAtRandom(world, { seed, kills, crew, inFlight: 50 });
    // Otherwise it would show nothing.
    expect(atRandom.kills).toBe(kills);
    expect(atRandom.hits).toBeGreaterThan(kills * 0.9);
    expect(atRandom.inFlight / kills).toBeGreaterThan(40);
    expect(atRandom.atWork).toBeGreaterThan(0); // how many is a matter of the machine
    expect(atRandom.stepsAgain).toBeGreaterThan(kills);
  });
});

describe("kill -9 at a named point", () => {
  const times = bySize(1, 20);
  const random = new Random(seed);
  const { atPoints } = figures;
  let world: World | undefined;
  afterAll(() => world?.close());

  for (const point of points)
    it(`loses nothing ${point.title} (${toName(point)})`, { timeout }, async () => {
      world ??= createWorld(atPoints);
      if (world.lives.life === 0) await world.lives.start();
      try {
        for (let time = 0; time < times; time++) await killAt({ ...point, nth: random.between(1, point.most) }, world);
      } catch (error) {
        await world.close();
        world = undefined;
        throw new Error(`SEED=${seed}`, { cause: error });
      }
    });

  it("hits executions in flight", () => {
    expect(atPoints.kills).toBe(points.length * times);
    expect(atPoints.hits).toBeGreaterThan(atPoints.kills * 0.8);
    expect(atPoints.stepsAgain).toBeGreaterThan(atPoints.kills);
  });
});

/** A few executions, one death among them, and all of them to their end in the next life. */
async function killAt(point: Point, world: World): Promise<void> {
  const { lives } = world;
  const { life } = lives;
  lives.arm(point);
  async function work(): Promise<void> {
    do await Promise.all(smallPlans(world.take(11)).map((plan) => world.run(plan)));
    while (!lives.isOver(life));
  }
  const working = lives.watch(work());
  world.committed(await lives.died(point));
  world.count();
  await lives.start();
  await lives.within("everything to end", working);
  await world.finish();
}
