import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { config, startDev, type DevServer } from "./dev-server.ts";

const ids = ["one", "two", "three", "four", "five", "six", "seven"];
const file = "workflows/order.ts";

/** A workflow each of whose steps appends its id to `effects.txt`, and fails after that if it is `broken`. */
const order = (steps: readonly string[], broken?: string): string => `import { appendFileSync } from "node:fs";
import { defineWorkflow } from "agentserve";

function run({ data, executionId, stepId }: { data: any; executionId: string; stepId: string }) {
  appendFileSync("effects.txt", executionId + " " + stepId + "\\n");
  if (stepId === ${JSON.stringify(broken ?? "")}) throw new Error("out of stock");
  return { trail: [...data.trail, stepId] };
}
export const order = defineWorkflow({ id: "order" })
${steps.map((id) => `  .andThen({ id: "${id}", execute: run })`).join("\n")};
`;

describe("a 7-step workflow that failed at step 6, fixed and saved under `agentserve dev`", () => {
  /** A project with one execution that has failed. */
  async function fail(id: string) {
    const dev = await startDev(
      { "agents.config.ts": config, [file]: order(ids, "six") },
      { args: ["--port", "0", "--data", "data.db"] },
    );
    const call = callerOf(dev, id);
    const begun = await call.post("/workflows/order/execute", {
      input: { trail: [] },
      options: { executionId: id },
    });
    expect(begun.status).toBe(500);
    return { dev, ...call };
  }

  it("is completed by a retry: steps 1 to 5 run once in all, step 6 twice, step 7 once", async () => {
    const { dev, post, path, effects, state } = await fail("e1");
    expect(effects()).toEqual(ids.slice(0, 6));
    await dev.serves({ [file]: order(ids) });
    expect(await post(path("retry"))).toMatchObject({
      status: 200,
      body: { success: true, data: { executionId: "e1", status: "completed", result: { trail: ids } } },
    });
    expect(effects()).toEqual([...ids.slice(0, 6), "six", "seven"]);
    expect(await state()).toMatchObject({ status: "completed", result: { trail: ids } });
    expect(await post(path("retry"))).toMatchObject({
      status: 409,
      body: { success: false, error: "Execution e1 has not failed" },
    });
    expect(effects()).toHaveLength(8);
  });

  it("is not retried by code that does not fit: nothing runs until the right fix is saved", async () => {
    const { dev, post, path, effects, state } = await fail("e2");
    const before = await state();
    const renamed = ids.with(2, "third");
    await dev.serves({ [file]: order(renamed) });
    expect(await post(path("retry"))).toMatchObject({
      status: 409,
      body: { success: false, error: "Workflow changed: step third is now where step three was" },
    });
    expect(await state()).toEqual(before);
    expect(effects()).toEqual(ids.slice(0, 6));
    // A save that cannot be loaded changes nothing: the version that does not fit is still served.
    await dev.refuses({ [file]: `${order(ids)}oops(;` });
    expect((await post(path("retry"))).status).toBe(409);
    expect(effects()).toEqual(ids.slice(0, 6));
    // The right fix. Steps that have not begun may be different ones.
    const fixed = [...ids.slice(0, 6), "ship", "bill"];
    await dev.serves({ [file]: order(fixed) });
    expect(await post(path("retry"))).toMatchObject({
      status: 200,
      body: { data: { status: "completed", result: { trail: fixed } } },
    });
    expect(effects()).toEqual([...ids.slice(0, 6), "six", "ship", "bill"]);
  });
});

/** The requests about one execution, and its effects so far: the steps that have run, in order. */
function callerOf({ url, folder }: DevServer, id: string) {
  const path = (what: string): string => `/workflows/order/executions/${id}/${what}`;
  async function post(to: string, json: unknown = {}): Promise<{ status: number; body: any }> {
    const headers = { "content-type": "application/json" };
    const response = await fetch(url + to, { method: "POST", headers, body: JSON.stringify(json) });
    return { status: response.status, body: await response.json() };
  }
  const state = async (): Promise<unknown> =>
    ((await (await fetch(url + path("state"))).json()) as { data: unknown }).data;
  const effects = (): string[] => {
    const lines = readFileSync(join(folder, "effects.txt"), "utf8").trimEnd().split("\n");
    return lines.map((line) => (line.startsWith(`${id} `) ? line.slice(id.length + 1) : line));
  };
  return { path, post, state, effects };
}
