import { defineWorkflow } from "agentserve";
import { createClock } from "agentserve/testing";
import { expect, it } from "vitest";
import { copyOf, newFile, serve } from "./serve.ts";

it.each([1_000, 60_000])(
  "a crash during a retry delay of %i ms does not interrupt the execution, one in the attempt after it does",
  async (delay) => {
    const file = newFile();
    const never = new Promise<never>(() => {});
    let isStuck = true;
    const workflow = defineWorkflow({ id: "w", recovery: "fail" }).andThen({
      id: "work",
      retry: { attempts: 2, delay },
      execute: ({ attempt }) => {
        if (attempt === 1) throw new Error("not yet");
        return isStuck ? never : "done";
      },
    });
    const first = serve({ workflows: [workflow], server: { limits: { drainMs: 10 } } }, { file });
    // What a SIGKILL at this moment would leave.
    const crash = async () => {
      const copy = copyOf(file);
      const next = serve({ workflows: [workflow] }, { file: copy, clock: createClock({ now: first.clock.now() }) });
      await next.get("/workflows");
      await next.clock.advance(delay);
      return next.state("w");
    };
    await first.begin("w");
    await first.clock.advance(delay - 1);
    expect((await first.state("w")).status).toBe("running");
    isStuck = false;
    expect(await crash()).toMatchObject({ status: "completed", result: "done" });

    isStuck = true;
    await first.clock.advance(1);
    isStuck = false; // for the copy: the attempt of the first server is stuck
    expect(await crash()).toMatchObject({ status: "error" });
  },
);
