import { andThen, defineWorkflow } from "agentserve";
import { createClock } from "agentserve/testing";
import { describe, expect, it } from "vitest";
import { after, copyOf, newFile, serve } from "../waits/serve.ts";

const never = new Promise<never>(() => {});
const ask = { id: "ask", execute: ({ data, suspend, resumeData }: any) => (resumeData ? data : suspend("ok?")) };

describe("andMap", () => {
  it("aborts andMap by a cancel, and repeats it after a crash only without a value", async () => {
    const file = newFile();
    let calls = 0;
    let isAborted = false;
    let answer: Promise<number> = never;
    const workflow = defineWorkflow({ id: "w" })
      .andMap({
        id: "map",
        map: {
          n: {
            source: "fn",
            fn: ({ signal }) => {
              calls++;
              signal.addEventListener("abort", () => (isAborted = true));
              return Promise.race([answer, new Promise((_, no) => signal.addEventListener("abort", no))]);
            },
          },
        },
      })
      .andThen(ask);
    const open = (from: string, now: Date | number) => {
      const copy = copyOf(from);
      return {
        copy,
        server: serve({ workflows: [workflow] }, { file: copy, clock: createClock({ now: new Date(now) }) }),
      };
    };
    const first = serve({ workflows: [workflow] }, { file });
    await first.begin("w");
    await first.clock.advance(0);
    expect(calls).toBe(1);

    answer = Promise.resolve(7);
    const second = open(file, first.clock.now());
    await second.server.get("/workflows");
    await second.server.clock.advance(0);
    expect(await second.server.state("w")).toMatchObject({ status: "suspended", suspension: { stepId: "ask" } });
    expect(calls).toBe(2);

    const third = open(second.copy, first.clock.now());
    await third.server.resume("w", { resumeData: true });
    await third.server.clock.advance(0);
    expect(await third.server.state("w")).toMatchObject({ status: "completed", result: { n: 7 } });
    expect(calls).toBe(2);

    expect((await first.post("/workflows/w/executions/w/cancel", {})).status).toBe(200);
    expect(isAborted).toBe(true);
    const { body } = await first.get("/workflows/w/executions/w/steps");
    expect(body.data.items).toMatchObject([{ path: "map", type: "andMap", status: "aborted", endAt: after(0) }]);
  });

  it("accepts changed fields of an andMap that has begun, but no other id, place or type", async () => {
    const field = (value: unknown) => ({ a: { source: "value" as const, value } });
    const code = (id: string, value: number) =>
      defineWorkflow({ id: "w" })
        .andMap({ id, map: field(value) })
        .andThen(ask);
    const then = defineWorkflow({ id: "w" })
      .andThen({ id: "map", execute: () => 1 })
      .andThen(ask);
    const loop = defineWorkflow({ id: "w" })
      .andForEach({ id: "map", items: () => [], step: andThen({ id: "s", execute: () => 1 }) })
      .andThen(ask);
    for (const [next, error] of [
      [code("other", 1), "Workflow changed: step other is now where step map was"],
      [then, "Workflow changed: step map was andMap and is now andThen"],
      [loop, "Workflow changed: step map was andMap and is now andForEach"],
      [code("map", 2), undefined],
    ] as const) {
      const file = newFile();
      const first = serve({ workflows: [code("map", 1)] }, { file });
      await first.begin("w");
      await first.clock.advance(0);
      await first.close();
      const second = serve({ workflows: [next] }, { file });
      const { status, body } = await second.resume("w", { resumeData: true });
      expect([status, body.error]).toEqual(error ? [409, error] : [202, undefined]);
      if (error) continue;
      await second.clock.advance(0);
      // What it had made is kept.
      expect((await second.state("w")).result).toEqual({ a: 1 });
    }
  });
});
