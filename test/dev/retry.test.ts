import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { config, startDev } from "./dev-server.ts";

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

it("retries an execution that failed at step 6 of 7 on fixed code, and runs nothing on code that does not fit", async () => {
  const dev = await startDev(
    { "agents.config.ts": config, [file]: order(ids, "six") },
    { args: ["--port", "0", "--data", "data.db"] },
  );
  const executions = `${dev.url}/workflows/order/executions`;
  async function post(url: string, json: unknown = {}): Promise<{ status: number; body: any }> {
    const headers = { "content-type": "application/json" };
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(json) });
    return { status: response.status, body: await response.json() };
  }
  const retry = () => post(`${executions}/e1/retry`);
  const state = async (): Promise<any> => (await (await fetch(`${executions}/e1/state`)).json()).data;
  const effects = (): string => readFileSync(join(dev.folder, "effects.txt"), "utf8");
  const ran = (...steps: string[]): string => steps.map((step) => `e1 ${step}\n`).join("");

  const body = { input: { trail: [] }, options: { executionId: "e1" } };
  expect((await post(`${dev.url}/workflows/order/execute`, body)).status).toBe(500);
  const before = await state();
  await dev.serves({ [file]: order(ids.with(2, "third")) });
  expect(await retry()).toMatchObject({
    status: 409,
    body: { success: false, error: "Workflow changed: step third is now where step three was" },
  });
  expect(await state()).toEqual(before);
  // A save that cannot be loaded changes nothing: the version that does not fit is still served.
  await dev.refuses({ [file]: `${order(ids)}oops(;` });
  expect((await retry()).status).toBe(409);
  expect(effects()).toBe(ran(...ids.slice(0, 6)));
  // The right fix. Steps that have not begun may be different ones.
  const fixed = [...ids.slice(0, 6), "ship", "bill"];
  await dev.serves({ [file]: order(fixed) });
  const completed = { status: "completed", result: { trail: fixed } };
  expect(await retry()).toMatchObject({ status: 200, body: { data: { executionId: "e1", ...completed } } });
  expect(await state()).toMatchObject(completed);
  expect(await retry()).toMatchObject({ status: 409, body: { error: "Execution e1 has not failed" } });
  expect(effects()).toBe(ran(...ids.slice(0, 6), "six", "ship", "bill"));
});
