import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { resume } from "../../src/workflows/resume.ts";
import { patienceMs } from "../harness/patience.ts";
import { die } from "./die.ts";
import { asking, openEngine } from "./engine.ts";
import { freePort } from "./restate-server.ts";

const module = join(import.meta.dirname, "lost-row-app.ts");
const beginning = ["workflow-start", "step-start", "step-complete", "step-start", "workflow-suspended"];

/** Runs replicas that die, and continues with one on the second version of the workflow. */
async function dieAt(...faults: string[]) {
  const place = { name: `lost-${randomUUID()}`, port: await freePort() };
  for (const fault of faults) await die(module, { ...place, fault });
  const ran: string[] = [];
  const opened = await openEngine(
    place,
    asking(2, (step) => ran.push(step)),
  );
  onTestFinished(() => opened.engine.close({ drainMs: 0 }));
  const eventsFrom = async (afterSeq: number): Promise<string[]> => {
    const seen: string[] = [];
    for await (const { seq, type } of opened.engine.events("x", afterSeq, AbortSignal.timeout(patienceMs)))
      seen.push(`${seq} ${type}`);
    return seen;
  };
  return { ...opened, ran, eventsFrom };
}
const numbered = (types: readonly string[]): string[] => types.map((type, index) => `${index + 1} ${type}`);

const timeout = 2 * patienceMs;

it("a suspension whose row was lost with its drive is stored, and resumed", { timeout }, async () => {
  const { engine, runnable, ran, eventsFrom } = await dieAt("suspended");
  const state = await engine.state("x");
  expect(state).toMatchObject({ status: "suspended", epoch: 1, last: { pending: [{ stepId: "ask", reason: "Why" }] } });
  expect(await eventsFrom(0)).toEqual(numbered(beginning));
  const { epoch } = await resume(engine, runnable, state!, { resumeData: 2 });
  expect(await engine.settled("x", epoch)).toMatchObject({ status: "completed", last: { result: "[1,2]" } });
  expect(ran, "recorded steps do not run again").toEqual(["ask", "more"]);
  expect((await eventsFrom(beginning.length)).at(-1)).toMatch(/workflow-complete$/);
});

it("an end whose row was lost with its drive is stored", { timeout }, async () => {
  const { engine, ran, eventsFrom } = await dieAt("completed");
  expect(await engine.state("x")).toMatchObject({ status: "completed", last: { result: "[1,2]" } });
  const seen = await eventsFrom(beginning.length);
  expect(seen.map((event) => event.replace(/^\d+ /, ""))).toEqual(["step-complete", "workflow-complete"]);
  expect(ran).toEqual([]);
});

it("a resume that comes before the lost row of the suspension continues after it", { timeout }, async () => {
  const { engine, runnable, ran } = await dieAt("suspended");
  const state = (await engine.state("x"))!;
  const { epoch } = await resume(engine, runnable, state, { resumeData: 2 });
  expect(await engine.settled("x", epoch)).toMatchObject({ status: "completed", last: { result: "[1,2]" } });
  expect(ran).toEqual(["ask", "more"]);
});

it(
  "a replica that dies between the end of a drive and the next one leaves the rest to Restate",
  { timeout },
  async () => {
    const { engine, ran } = await dieAt("step", "rescue");
    expect(await engine.settled("x", 0, AbortSignal.timeout(patienceMs))).toMatchObject({ status: "suspended" });
    expect(ran).toEqual(["first", "ask"]);
  },
);
