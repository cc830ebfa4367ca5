import { expect, it } from "vitest";
import { startDev } from "./dev-server.ts";

it("dev finds a port for each of five servers that start at the same time without --port", async () => {
  const env = { ...process.env, PORT: undefined, HOST: undefined } as never;
  const files = { "agents.config.ts": "export default {};\n" };
  const started = await Promise.all(Array.from({ length: 5 }, () => startDev(files, { args: [], env })));
  expect(new Set(started.map(({ url }) => url)).size).toBe(started.length);
});
