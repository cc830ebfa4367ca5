import * as v from "valibot";
import { andForEach, andMap, andThen, defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { describeInProcess } from "../../harness/server.ts";
import { traitsOf } from "../traits.ts";

const execute = () => 1;
const step = (id: string) => andThen({ id, execute });
const all = defineWorkflow({ id: "all" })
  .andForEach({
    id: "each",
    name: "Each page",
    purpose: "Reads the pages",
    items: () => [[1]],
    concurrency: 3,
    onError: "collect",
    steps: [
      andThen({ id: "pay", resumeSchema: v.string(), execute }),
      andMap({ id: "list", map: { n: { source: "value", value: [1] } }, outputSchema: v.object({ n: v.unknown() }) }),
    ],
  })
  .andThen({ id: "rows", execute: () => [[1]] })
  .andForEach({ id: "outer", step: andForEach({ id: "inner", step: step("deep") }) })
  .andThen({ id: "n", execute })
  .andDoWhile({ id: "while", condition: () => false, step: step("a") })
  .andDoUntil({ id: "until", condition: () => true, steps: [step("b"), step("c")] })
  .andBranch({ id: "branch", branches: [{ condition: () => true, step: step("d") }] })
  .andMap({ id: "map", map: { a: { source: "step", stepId: "each/0/pay" } } });
const plain = (id: string, type: string, ...steps: object[]) => ({
  id,
  name: id,
  type,
  ...traitsOf[type],
  purpose: "",
  ...(steps.length > 0 && { steps }),
});
const then = (id: string) => plain(id, "andThen");

describeInProcess("GET /workflows/:id", { workflows: [all] }, (server) => {
  it("shows loops, branches and maps by the names of their functions, with the steps inside them", async () => {
    const { data } = (await server.get("/workflows/all")).body;
    expect(data.stepsCount).toBe(8);
    expect(data.steps).toEqual([
      {
        ...plain("each", "andForEach"),
        name: "Each page",
        purpose: "Reads the pages",
        steps: [
          { ...then("pay"), resumeSchema: { type: "string" } },
          {
            ...plain("list", "andMap"),
            outputSchema: { type: "object", properties: { n: {} }, required: ["n"] },
          },
        ],
      },
      then("rows"),
      plain("outer", "andForEach", plain("inner", "andForEach", then("deep"))),
      then("n"),
      plain("while", "andDoWhile", then("a")),
      plain("until", "andDoUntil", then("b"), then("c")),
      plain("branch", "andBranch", then("d")),
      plain("map", "andMap"),
    ]);
  });
});
