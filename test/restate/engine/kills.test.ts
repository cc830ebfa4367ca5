// The kills at random moments of `test/faults/kills`, at a reduced size. Those at points of a file have no meaning here.
import { randomUUID } from "node:crypto";
import { expect, it, onTestFinished } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { killAtRandom } from "../../faults/kills/at-random.ts";
import { ServedLives } from "../../faults/kills/process.ts";
import { noFigures, World } from "../../faults/kills/world.ts";
import { patientTimeouts } from "../../harness/patience.ts";
import { freePort } from "../restate-server.ts";
import { seed } from "../../harness/seed.ts";

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;

it(
  "kill -9 loses nothing that was acknowledged, and runs nothing again that was recorded",
  { timeout: 600_000 },
  async () => {
    const serve = { port: await freePort() };
    const cluster = { ingress, admin, name: `kills-${randomUUID()}`, serve, timeouts: patientTimeouts };
    const figures = noFigures();
    const world = new World(new ServedLives(createFolder("kills"), cluster), figures);
    onTestFinished(async () => {
      await world.close();
      console.log(`SEED=${seed}`, JSON.stringify(figures));
    });
    const kills = 4;
    await killAtRandom(world, { seed, kills, crew: 20, inFlight: 12 });
    expect(figures.kills).toBe(kills);
    expect(figures.hits).toBeGreaterThan(kills * 0.9);
    expect(figures.inFlight / kills).toBeGreaterThan(10);
  },
);
