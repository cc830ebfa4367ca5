import { join } from "node:path";
import { expect, it } from "vitest";
import { loadSdk } from "../../../../src/agents/sdk.ts";

it("runs the agent suites on the version of the AI SDK that AI_RANGE names", async () => {
  const folder = join(import.meta.dirname, "..", process.env["AI_RANGE"]!);
  expect(await loadSdk()).toBe(await import(join(folder, "node_modules/ai/dist/index.js")));
});
