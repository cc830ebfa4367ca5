import { andThen, defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { run } from "./run.ts";

describe("a step", () => {
  it("that lost a race, or whose sibling failed, has its signal aborted and its value dropped", async () => {
    const aborted: string[] = [];
    const hangs = (id: string) =>
      andThen({
        id,
        execute: ({ signal }) =>
          new Promise<string>((resolve) =>
            signal.addEventListener("abort", () => {
              aborted.push(id);
              resolve("late");
            }),
          ),
      });
    const race = await run(
      defineWorkflow({ id: "w" }).andRace({
        id: "r",
        steps: [hangs("loser"), andThen({ id: "winner", execute: () => "won" })],
      }),
    );
    expect(race.state).toMatchObject({ status: "completed", result: "won" });
    await race.server.close();
    const fails = andThen({ id: "fails", execute: () => Promise.reject(new Error("bad")) });
    const all = await run(defineWorkflow({ id: "w" }).andAll({ id: "a", steps: [hangs("sibling"), fails] }));
    expect(all.state).toMatchObject({ status: "error", error: "bad" });
    await all.server.close();
    expect(aborted).toEqual(["loser", "sibling"]);
  });

  it("inside andRace that is parked neither wins nor fails; a race fails only when all fail", async () => {
    const asks = andThen({ id: "asks", execute: ({ resumeData, suspend }) => resumeData ?? suspend("?") });
    const fails = (id: string) => andThen({ id, execute: () => Promise.reject(new Error(id)) });
    const parked = await run(defineWorkflow({ id: "w" }).andRace({ id: "r", steps: [asks, fails("f")] }));
    expect(parked.state).toMatchObject({ status: "suspended", suspension: { stepId: "asks" } });
    await parked.server.close();
    const won = await run(
      defineWorkflow({ id: "w" }).andRace({ id: "r", steps: [asks, andThen({ id: "x", execute: () => "x" })] }),
    );
    expect(won.state).toMatchObject({ status: "completed", result: "x" });
    await won.server.close();
    const { promise: hasFailed, resolve } = Promise.withResolvers<void>();
    const one = andThen({ id: "one", execute: () => (setImmediate(resolve), Promise.reject(new Error("one"))) });
    const two = andThen({ id: "two", execute: () => hasFailed.then(() => Promise.reject(new Error("two"))) });
    const lost = await run(defineWorkflow({ id: "w" }).andRace({ id: "r", steps: [one, two] }));
    expect(lost.state).toMatchObject({ status: "error", error: "two" });
    await lost.server.close();
  });
});
