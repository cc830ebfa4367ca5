import { expect, it } from "vitest";
import { startDev } from "./dev-server.ts";

const config = `import { defineConfig } from "agentserve";
export default defineConfig({
  server: { cors: false },
  configureApp: (app) => void app.get("/late", async () => (await import("./lib/late.ts")).said),
});
`;
const late = (said: string): string => `export const said: string = "${said}";\n`;

it("watches a file that a request was the first to import", async () => {
  const dev = await startDev({ "agents.config.ts": config, "lib/late.ts": late("one") });
  const ask = async () => (await fetch(`${dev.url}/late`)).text();
  expect(await ask()).toBe("one");
  // Once every half second it looks for such files. One saved before that is seen then.
  expect(await dev.said(/^✓ .*\n/m, () => dev.save({ "lib/late.ts": late("two") }))).toContain("lib/late.ts changed");
  expect(await ask()).toBe("two");
});

it("sees a save that came after its files were read, and before they were watched", async () => {
  const dev = await startDev({ "agents.config.ts": config, "lib/late.ts": late("one") }, { watched: false });
  dev.save({ "agents.config.ts": config.replace("/late", "/later") });
  await dev.child.waitFor(/agents\.config\.ts changed/);
  expect((await fetch(`${dev.url}/later`)).status).toBe(200);
});
