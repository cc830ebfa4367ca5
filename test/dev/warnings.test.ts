import { expect, it } from "vitest";
import { config, startDev, workflow } from "./dev-server.ts";

const open = config.replace("cors: false", "");
const allOrigins = "warning Pages of any origin can call this server: server.cors.origin is not set\n";
const weakSecret = "warning The secret of jwtAuth() is shorter than 32 bytes and can be guessed\n";
const withSecret = (text: string): string =>
  text
    .replace("{ defineConfig }", "{ defineConfig, jwtAuth }")
    .replace("server:", `auth: jwtAuth({ secret: "short", ownership: true }), server:`);

it("prints the warnings of a save that the version before did not have", async () => {
  const dev = await startDev({ "agents.config.ts": config });
  const warnings = (): string[] => dev.raw().match(/^warning .*\n/gm) ?? [];
  expect(warnings()).toEqual([]);

  await dev.said(/hint +set server\.cors/, () => dev.save({ "agents.config.ts": open }));
  expect(warnings()).toEqual([allOrigins]);

  // A warning that was printed for the version before is not repeated.
  await dev.said(/hint +generate one/, () => dev.save({ "agents.config.ts": withSecret(open) }));
  expect(warnings()).toEqual([allOrigins, weakSecret]);

  const closed = { "agents.config.ts": config, "workflows/w.ts": workflow("w") };
  await dev.said(/workflow w added/, () => dev.save(closed));
  await dev.said(/hint +set server\.cors/, () => dev.save({ "agents.config.ts": open }));
  expect(warnings()).toEqual([allOrigins, weakSecret, allOrigins]);
});

it("does not repeat a warning of the start, and prints none for a save that cannot be loaded", async () => {
  const dev = await startDev({ "agents.config.ts": open });
  await dev.refuses({ "agents.config.ts": withSecret(open).replace("server:", "unknown: 1, server:") });
  await dev.serves({ "agents.config.ts": `${open}// saved\n` });
  await dev.said(/hint +generate one/, () => dev.save({ "agents.config.ts": withSecret(open) }));
  expect(dev.raw().match(/^warning .*\n/gm)).toEqual([allOrigins, weakSecret]);
});
