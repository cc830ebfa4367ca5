import { defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { run } from "./run.ts";

describe("a step", () => {
  it("that times out has its signal aborted, and is tried again with attempt and the same idempotencyKey", async () => {
    const seen: unknown[] = [];
    const { server, state } = await run(
      defineWorkflow({ id: "w" }).andThen({
        id: "slow",
        timeout: 30,
        retry: { attempts: 2, delay: 5, backoff: 2 },
        async execute({ attempt, idempotencyKey, signal }) {
          if (attempt === 2) return [attempt, idempotencyKey];
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          seen.push(idempotencyKey, (signal.reason as Error).message);
          return "too late";
        },
      }),
    );
    expect(state).toMatchObject({ status: "completed", result: [2, "e/slow"] });
    expect(seen).toEqual(["e/slow", "Step slow timed out after 30 ms"]);
    await server.close();
  });
});
