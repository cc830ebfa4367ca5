// The order of events and times at a resume, in real time, on the backend that is chosen. `order` has more, on a moved clock.
import { andRace, andSleep, andThen, andWaitFor, defineWorkflow } from "agentserve";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { createGates, type Gates } from "../../harness/gates.ts";
import { describeServer, type TestServer } from "../../harness/server.ts";
import { patienceMs } from "../../harness/patience.ts";
import { eventually } from "../../harness/waiting.ts";

/** The times of the waits. A busy machine needs one of the longer ones. */
const times = [1_500, 6_000, 24_000, 96_000];
const timeout = 10 * patienceMs;
const gates: Gates = createGates();
const key = ({ executionId }: { executionId: string }): string => executionId;
const nap = (ms: number) => andSleep({ id: "nap", duration: ms });
const paid = andWaitFor({ id: "paid", event: "paid", key });
const ask = andThen({ id: "ask", execute: ({ suspend, resumeData }) => resumeData ?? suspend("?") });

/** The steps of each case, beside one that keeps the execution running until a request suspends it. */
const cases = {
  race: (ms: number) => andRace({ id: "race", steps: [nap(ms), paid] }),
  "race-with-person": (ms: number) => andRace({ id: "race", steps: [nap(ms), ask, paid] as any }),
  deadline: (ms: number) => andWaitFor({ id: "limited", event: "paid", key, timeout: ms }),
};
type Case = keyof typeof cases;
const toId = (name: Case, ms: number): string => `${name}-${ms}`;
const gate = andThen({ id: "gate", execute: ({ executionId }) => gates.pass(executionId) });
const workflows = times.flatMap((ms) =>
  Object.entries(cases).map(([name, create]) =>
    defineWorkflow({ id: toId(name as Case, ms) }).andAll({ id: "all", steps: [create(ms), gate] as any }),
  ),
);

let count = 0;

/** Plays a case with the first time that is long enough. Returns the result of the step. */
async function play(server: TestServer, name: Case, first: "event" | "time"): Promise<unknown> {
  for (const ms of times) {
    const workflow = toId(name, ms);
    const id = `order-${++count}`;
    const path = `/workflows/${workflow}/executions/${id}`;
    const body = { input: {}, options: { executionId: id } };
    await server.post(`/workflows/${workflow}/execute`, body, { headers: { prefer: "respond-async" } });
    await gates.reached(id);
    const dueAt = await eventually(() => findDue(server, path, name));
    const { status } = await server.post(`${path}/suspend`, {});
    const send = async () =>
      expect((await server.post("/events", { name: "paid", key: id, data: "event" })).status).toBe(202);
    if (first === "event") await send();
    gates.open(id);
    if (status !== 200 || Date.now() >= dueAt) continue; // too late for this case
    while (Date.now() <= dueAt) await sleep(dueAt - Date.now() + 1);
    if (first === "time") await send();
    expect((await server.post(`${path}/resume`, {}, { headers: { prefer: "respond-async" } })).status).toBe(202);
    const state = async () => (await server.get(`${path}/state`)).body.data;
    await eventually(async () => expect(await state()).toMatchObject({ status: "completed" }));
    return (await state()).result[0];
  }
  throw new Error("no time was long enough");
}

/** The time at which the wait of a case ends by itself, once all its waits have begun. */
async function findDue(server: TestServer, path: string, name: Case): Promise<number> {
  const { items } = (await server.get(`${path}/steps`)).body.data;
  const waits = items.filter(({ suspension }: any) => suspension).map(({ suspension }: any) => suspension);
  expect(waits.length).toBe({ race: 2, "race-with-person": 3, deadline: 1 }[name]);
  const { wakeAt, deadline } = waits.find(({ wakeAt: at, deadline: end }: any) => at ?? end);
  return Date.parse(wakeAt ?? deadline);
}

describeServer("the order of events and times at a resume", { config: { workflows }, only: ["start"] }, (server) => {
  it.each(Object.keys(cases) as Case[])(
    "ends waits in the order of their times at a resume in real time: %s",
    { timeout },
    async (name) => {
      const [event, time] = await Promise.all([play(server, name, "event"), play(server, name, "time")]);
      expect({ event, time }).toEqual({ event: "event", time: name === "deadline" ? null : {} });
    },
  );
});
