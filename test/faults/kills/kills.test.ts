// Each of these changes of the engine makes tests of this file fail: a beginning acknowledged before its commit, or
// committed later than what follows from it; a step started before the row of the one before is committed; a status
// committed before its row, or outside of its transaction; a recovery that forgets a row, or starts what is recorded;
// events told before their commit, or numbered anew after a recovery; a resume that is followed and not written; a retry
// that is refused because of one that is not committed; a retry that runs recorded branches again; a fork that copies the
// first result only; an event that is taken twice, or not offered again after a kill; a timer that is left when its wait has
// ended; another id of a child when its step runs again; a cancel that does not reach a child, or reaches one that is
// independent; a crash that counts while a step waits for its children.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { seed } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { killAtRandom } from "./at-random.ts";
import { checkFile, isAbsent } from "./file.ts";
import { maxSmall, patientPlan, Random, smallPlans } from "./plan.ts";
import { ServedLives } from "./process.ts";
import { isOfWaits, points, toName, type Point } from "./points.ts";
import { noFigures, World, type Figures } from "./world.ts";

const timeout = 600_000;
const folder = mkdtempSync(join(tmpdir(), "agentserve-kills-"));
const figures = { atRandom: noFigures(), atPoints: noFigures(), atWaits: noFigures() };
let worlds = 0;

function createWorld(counted: Figures): World {
  const own = join(folder, String(++worlds));
  mkdirSync(own);
  return new World(new ServedLives(own), counted);
}

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  const show = (counted: Figures) => Object.entries(counted).map(([name, value]) => `${name} ${value}`);
  for (const [when, counted] of Object.entries(figures)) console.log(`kills ${when}: ${show(counted).join(", ")}`);
});

describe("kill -9 at random moments, with 50 executions in flight", () => {
  const kills = bySize(3, 30);
  // Some of them are always between two executions.
  const crew = 64;
  const { atRandom } = figures;

  it("kill -9 loses nothing acknowledged, and runs nothing recorded again", { timeout }, async () => {
    const world = createWorld(atRandom);
    onTestFinished(() => world.close());
    await killAtRandom(world, { seed, kills, crew, inFlight: 50, repairs: true });
    const waits = checkFile(world.lives.file);
    // Otherwise it would show nothing.
    expect(atRandom.kills).toBe(kills);
    expect(atRandom.hits).toBeGreaterThan(kills * 0.9);
    expect(atRandom.inFlight / kills).toBeGreaterThan(40);
    // The machine decides how many: a busy one does less between two kills.
    expect(waits).toBeGreaterThan(kills / 10);
    for (const figure of ["atWork", "stepsAgain", "retries", "forks", "children"] as const)
      expect(atRandom[figure], figure).toBeGreaterThan(kills / 10);
  });
});

describe("kill -9 at a named point", () => {
  const times = bySize(1, 2);
  const random = new Random(seed);
  const { atPoints } = figures;
  let world: World | undefined;
  afterAll(() => world?.close());

  for (const point of points)
    it(`kill -9 loses nothing ${point.title} (${toName(point)})`, { timeout }, async () => {
      world ??= createWorld(atPoints);
      if (world.lives.life === 0) await world.lives.start();
      try {
        for (let time = 0; time < times; time++) {
          // The last of the events is one without which nothing would wake its execution.
          const nth = isOfWaits(point) && time === 0 ? point.most : random.between(1, point.most);
          await killAt({ ...point, nth }, world);
        }
      } catch (error) {
        await world.close();
        world = undefined;
        throw new Error(`SEED=${seed}`, { cause: error });
      }
    });

  it("each kill at a named point hits executions in flight", () => {
    expect(atPoints.kills).toBe(points.length * times);
    expect(atPoints.hits).toBeGreaterThan(atPoints.kills * 0.8);
    expect(atPoints.stepsAgain).toBeGreaterThan(atPoints.kills);
    // Each set of executions has a parent that is cancelled while it waits.
    expect(atPoints.cancelledChildren).toBeGreaterThanOrEqual(atPoints.kills);
  });
});

describe("kill -9 while an execution waits for its children", () => {
  it("does not suspend an execution that kill -9 finds waiting for its children", { timeout }, async () => {
    const world = createWorld(figures.atWaits);
    onTestFinished(() => world.close());
    const { lives } = world;
    const { log } = lives;
    await lives.start();
    const plan = patientPlan(world.take());
    const id = plan.id!;
    const working = lives.watch(world.run(plan));
    // Three crashes in a row would suspend it. Its children make progress between two of them.
    for (const path of ["a", "x", "t"]) {
      await lives.until(`a wait while ${path} is at work`, () => {
        const isAtWork = log.childrenOf(id).every((child) => log.of(child.id).some((line) => line.path === path));
        return log.waitsOf(id).at(-1)?.life === lives.life && isAtWork && isAbsent(lives.file, id);
      });
      await lives.kill();
      world.count();
      await lives.start();
    }
    await lives.within("everything to end", working);
    await world.finish();
    checkFile(lives.file);
    const begun = log.of(id).filter(({ what, path }) => what === "begin" && path === "kids");
    expect(begun.map(({ life }) => life)).toEqual([1, 2, 3, 4]);
    const stream = await lives.open(`/workflows/family/executions/${id}/stream?after=0`);
    for await (const frame of stream!.frames) expect(frame).not.toContain("workflow-suspended");
    expect(world.figures).toMatchObject({ executions: 3, children: 2 });
  });
});

/** A few executions, one death among them, and all of them to their end in the next life. */
async function killAt(point: Point, world: World): Promise<void> {
  const { lives } = world;
  const { life } = lives;
  const waits = isOfWaits(point) || bySize(0, 1) === 1;
  lives.arm(point);
  async function work(): Promise<void> {
    do await Promise.all(smallPlans(world.take(maxSmall), waits).map((plan) => world.run(plan)));
    while (!lives.isOver(life));
  }
  const working = lives.watch(work());
  world.committed(await lives.died(point));
  world.count();
  await lives.start();
  await lives.within("everything to end", working);
  await world.finish();
  checkFile(lives.file);
}
