import { setTimeout as sleep } from "node:timers/promises";
import { andThen, defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { eventually } from "../harness/waiting.ts";
import { run } from "./run.ts";

describe("a step", () => {
  it("inherits the workflow's retry", async () => {
    const { server, state } = await run(
      defineWorkflow({ id: "w", retry: { attempts: 3 } }).andThen({
        id: "s",
        execute({ attempt }) {
          if (attempt < 3) throw new Error(`attempt ${attempt}`);
          return attempt;
        },
      }),
    );
    expect(state).toMatchObject({ status: "completed", result: 3 });
    const { events } = await server.get("/workflows/w/executions/e/stream");
    expect(events.find(({ type }) => type === "step-complete")).toMatchObject({ from: "s", attempt: 3 });
    await server.close();
  });

  it("logs a warning for each failed attempt that is retried, and an error for the last one", async () => {
    const { server } = await run(
      defineWorkflow({ id: "w" }).andThen({
        id: "s",
        retry: { attempts: 3, delay: 2, backoff: 3 },
        execute: ({ attempt }) => Promise.reject(new Error(`attempt ${attempt}`)),
      }),
    );
    const { body } = await server.get("/api/logs?executionId=e");
    expect(body.data).toMatchObject([
      { level: "warn", message: "Step attempt failed", data: { attempt: 1, attempts: 3, delayMs: 2 } },
      { level: "warn", message: "Step attempt failed", data: { attempt: 2, attempts: 3, delayMs: 6 } },
      { level: "error", message: "Step failed", data: { attempt: 3 } },
    ]);
    await server.close();
  });

  it("is not said to be retried when another branch has won", async () => {
    const { server, state } = await run(
      defineWorkflow({ id: "w", retry: { attempts: 3 } }).andRace({
        id: "race",
        steps: [
          andThen({ id: "loser", execute: ({ signal }) => sleep(600_000, undefined, { signal }) }),
          andThen({ id: "winner", execute: () => sleep(1, "won") }),
        ],
      }),
    );
    expect(state).toMatchObject({ status: "completed", result: "won" });
    await eventually(async () => {
      const { body } = await server.get("/api/logs?executionId=e");
      const steps = body.data.filter(({ stepId }: { stepId?: string }) => stepId !== undefined);
      expect(steps).toMatchObject([{ level: "debug", message: "Step aborted", stepId: "loser" }]);
    });
    await server.close();
  });
});
