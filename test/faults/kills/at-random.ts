import { setTimeout as sleep } from "node:timers/promises";
import { Random, randomPlan } from "./plan.ts";
import type { World } from "./world.ts";

export interface AtRandom {
  readonly seed: number;
  readonly kills: number;
  /** Clients at work. Some of them are always between two executions. */
  readonly crew: number;
  /** Executions in flight at each kill, at least. */
  readonly inFlight: number;
  /** Whether executions are retried and forked. */
  readonly repairs?: boolean;
}

/** Kills the server again and again while clients use it, and checks everything at the end. */
export async function killAtRandom(world: World, { seed, kills, crew, inFlight, repairs }: AtRandom): Promise<void> {
  const { lives } = world;
  const random = new Random(seed);
  const crewHas = { more: true };
  async function work(): Promise<void> {
    while (crewHas.more) {
      const n = world.take();
      await world.run(randomPlan(new Random(seed + n * 7_919), n, repairs));
    }
  }
  const working = lives.watch(Promise.all(Array.from({ length: crew }, work)));
  for (let kill = 0; kill < kills; kill++) {
    const started = lives.watch(lives.start());
    // Some die while they recover what the one before left.
    const early = kill > 0 && random.chance(0.1);
    if (!early) await started;
    void lives.watch(world.sweep(random));
    if (!early) await lives.until(`${inFlight} executions in flight`, () => world.inFlight >= inFlight);
    await lives.within("a moment", sleep(early ? random.between(5, 60) : random.between(0, 400)));
    await lives.kill();
    world.count();
  }
  crewHas.more = false;
  await lives.start();
  await lives.within("everything to end", working, 120_000);
  await world.finish();
}
