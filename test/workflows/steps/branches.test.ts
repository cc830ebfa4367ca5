import { andAll, andForEach, andTap, andThen, andWhen, defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { describeInProcess } from "../../harness/server.ts";
import { createCalls, toLine, trusting } from "./world.ts";

const untilAborted = ({ signal }: { signal: AbortSignal }): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));

const taps = defineWorkflow({ id: "taps" }).andForEach({
  id: "each",
  items: () => ["a", "b"],
  onError: "collect",
  steps: [
    andTap({
      id: "tap",
      execute() {
        throw new Error("it is only a tap");
      },
    }),
    andThen({ id: "pay", execute: ({ data }) => `${String(data)}!` }),
  ],
});

let secondBegins = Promise.withResolvers<void>();
const lost = defineWorkflow({ id: "lost", authorize: () => true })
  .andRace({
    id: "race",
    steps: [
      andForEach({
        id: "each",
        items: () => [0, 1, 2],
        onError: "collect",
        step: andThen({
          id: "pay",
          execute(context) {
            if (context.data === 0) return "paid";
            secondBegins.resolve();
            return untilAborted(context);
          },
        }),
      }),
      andThen({ id: "quick", execute: () => secondBegins.promise.then(() => "quick") }),
    ],
  })
  .andThen({ id: "end", execute: ({ data }) => data });

const conditions = defineWorkflow({ id: "conditions" }).andWhen({
  id: "outer",
  condition: () => true,
  step: andWhen({ id: "inner", condition: () => false, step: andThen({ id: "never", execute: () => 1 }) }),
});

const half = defineWorkflow({ id: "half" }).andRace({
  id: "race",
  steps: [
    andAll({
      id: "all",
      steps: [
        andThen({ id: "aborted", execute: untilAborted }),
        andThen({
          id: "broken",
          execute() {
            throw new Error("broken");
          },
        }),
      ],
    }),
    andThen({ id: "in-flight", execute: untilAborted }),
  ],
});

const workflows = [taps, lost, conditions, half];

describeInProcess("branches that end early in GET …/steps", { workflows, auth: trusting }, (server) => {
  const calls = (workflow: string, name = "") => createCalls(server, workflow, `branches-${workflow}${name}`);

  it("shows an item that collects failures as completed when only an andTap in it has failed", async () => {
    const one = calls("taps");
    await one.execute();
    const [each] = await one.steps();
    expect(each).toMatchObject({ status: "success", count: { total: 2, success: 2 } });
    expect((await one.steps("?under=each")).map(toLine)).toEqual(
      [0, 1].flatMap((index) => [
        `each/${index} item success in each []`,
        `each/${index}/tap andTap success in each/${index} [1!]`,
        `each/${index}/pay andThen success in each/${index} [1]`,
      ]),
    );
  });

  it("shows a loop that lost a race in the original of a fork as aborted, with the items that had begun", async () => {
    secondBegins = Promise.withResolvers();
    const [original, fork] = [calls("lost"), calls("lost", "-fork")];
    expect((await original.execute()).body.data).toMatchObject({ result: "quick" });
    await original.post("fork", { fromStep: "end", options: { executionId: fork.path.split("/").at(-1) } });
    const lines = ["each/0 item success in each []", "each/0/pay andThen success in each/0 [1]"];
    for (const one of [original, fork]) {
      const each = (await one.steps()).find(({ path }) => path === "each");
      expect(each).toMatchObject({ status: "aborted", count: { total: 3, success: 1, aborted: 1 } });
      const items = await one.steps("?under=each");
      expect(items.map(toLine).slice(0, 3)).toEqual([...lines, "each/1 item aborted in each []"]);
      expect(items.map(({ path, status }) => `${path} ${status}`).slice(3)).toEqual(["each/1/pay aborted"]);
    }
  });

  it("shows only the condition that is false as skipped", async () => {
    const one = calls("conditions");
    await one.execute();
    expect((await one.steps()).map(toLine)).toEqual([
      "outer andWhen success [1]",
      "inner andWhen skipped in outer [1]",
    ]);
  });

  it("names a step in flight in a suspension by request, not one that was aborted beside a failure", async () => {
    const one = calls("half");
    await one.execute({}, { prefer: "respond-async" });
    await expect.poll(async () => (await one.steps()).find(({ path }) => path === "all")?.status).toBe("error");
    await one.post("suspend", { reason: "a break" });
    const { body } = await server.get(`${one.path}/state`, { headers: { authorization: "Bearer ada" } });
    expect(body.data.suspension).toMatchObject({ kind: "request", stepIndex: 0, stepId: "in-flight" });
    await one.post("cancel");
  });
});
