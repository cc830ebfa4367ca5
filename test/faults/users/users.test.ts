import { join } from "node:path";
import { expect, it } from "vitest";
import { openLives } from "../agents/lives.ts";
import type { UsersLine } from "./users-app.ts";

it("continues executions of a user and the server after kill -9, with their rights", { timeout: 600_000 }, async () => {
  const { lives, log } = openLives<UsersLine>("users", join(import.meta.dirname, "users-app.ts"));
  const as = (id: string) => ({ headers: { authorization: `Bearer ${id}` } });
  const path = "/workflows/whose/executions/e";
  await lives.start();
  void lives.ask("/workflows/whose/execute", { input: {}, options: { executionId: "e" } }, as("ada"));
  await lives.ask("/begin", {}, as("ada")); // begun by the server, not by ada
  await lives.until("both steps to run", () => log().length === 2);
  await lives.kill();
  await lives.start();
  const { events } = (await lives.ask(`${path}/stream`, undefined, as("ada")))!;
  expect(events.at(-1)).toMatchObject({ status: "completed", result: { userId: "ada", user: { id: "ada" } } });
  for (const caller of [as("bob"), {}]) expect((await lives.ask(`${path}/state`, undefined, caller))?.status).toBe(404);
  await lives.until("both steps to run again", () => log().length === 4);
  const later = log().filter(({ life }) => life === 2);
  expect(Object.fromEntries(later.map(({ execution, seen }) => [execution, seen]))).toEqual({
    e: ["e"],
    s: ["e", "s"],
  });
});
