import { join } from "node:path";
import { expect, it } from "vitest";
import { openLives } from "../agents/lives.ts";

it("continues an execution for its user after kill -9, and shows it to nobody else", { timeout: 600_000 }, async () => {
  const { lives, log } = openLives("users", join(import.meta.dirname, "users-app.ts"));
  const as = (id: string) => ({ headers: { authorization: `Bearer ${id}` } });
  const path = "/workflows/whose/executions/e";
  await lives.start();
  void lives.ask("/workflows/whose/execute", { input: {}, options: { executionId: "e" } }, as("ada"));
  await lives.until("the step to run", () => log().length > 0);
  await lives.kill();
  await lives.start();
  const { events } = (await lives.ask(`${path}/stream`, undefined, as("ada")))!;
  expect(events.at(-1)).toMatchObject({ status: "completed", result: { userId: "ada", user: { id: "ada" } } });
  for (const caller of [as("bob"), {}]) expect((await lives.ask(`${path}/state`, undefined, caller))?.status).toBe(404);
});
