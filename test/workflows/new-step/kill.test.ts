import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { runHere } from "../../harness/in-process.ts";
import { startHost, type Host } from "../../harness/start-host.ts";
import { until } from "../../harness/waiting.ts";
import { toLine } from "../steps/world.ts";

const app = join(import.meta.dirname, "order-app.ts");
const path = "/workflows/order/executions/order-1";
const json = { "content-type": "application/json", prefer: "respond-async" };

it("continues a step type of one file from the journal of a killed process, without repeating a recorded step", async () => {
  const folder = createFolder("new-step");
  const began = (): string[] => readFileSync(join(folder, "log"), "utf8").trim().split("\n");
  const first = await startHost(app, { folder });
  const body = JSON.stringify({ input: {}, options: { executionId: "order-1" } });
  await fetch(`${first.url}/workflows/order/execute`, { method: "POST", headers: json, body });
  await until(() => began().includes("invoice"), "the invoice to begin");
  const lines = [
    "reserve andThen success [1]",
    "pay andFallback running []",
    "card andWorkflow error in pay []",
    "card/check andThen success in card [1]",
    "card/charge andThen error in card [1!]",
    "invoice andThen running in pay [1…]",
  ];
  expect(await linesOf(first)).toEqual(lines);
  await first.end("SIGKILL");

  const { stdout } = await runHere(["runs", "show", "order-1", "--data", join(folder, "data.db")]);
  expect(stdout).toMatch(/\n▸ pay {2}andFallback[^]*\n {2}✗ card {2}andWorkflow[^]*\n {2}▸ invoice {2}andThen\n/);

  const second = await startHost(app, { folder });
  await until(() => began().length === 5, "the invoice to begin again");
  expect(await linesOf(second)).toEqual(lines);
  await second.order("open");
  await until(async () => (await ask(second, "state")).status === "completed", "the end of the order");
  expect((await ask(second, "state")).result).toEqual({ paidBy: "invoice" });
  expect(began()).toEqual(["reserve", "check", "charge", "invoice", "invoice", "ship"]);
  expect(await linesOf(second)).toEqual([
    lines[0],
    "pay andFallback success []",
    ...lines.slice(2, 5),
    "invoice andThen success in pay [1]",
    "ship andThen success [1]",
  ]);
  const streamed = await (await fetch(`${second.url}${path}/stream`)).text();
  const ofPay = [...streamed.matchAll(/"type":"(step-\w+)".*"from":"pay".*"stepType":"andFallback"/g)];
  expect(ofPay.map(([, type]) => type)).toEqual(["step-start", "step-complete"]);
});

const ask = async (host: Host, what: string): Promise<any> =>
  ((await (await fetch(`${host.url}${path}/${what}`)).json()) as any).data;
const linesOf = async (host: Host): Promise<string[]> => (await ask(host, "steps")).items.map(toLine);
