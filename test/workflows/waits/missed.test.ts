// An event that comes while its execution is just being suspended, resumed or left is not lost: the mailbox is looked at again.
import { andSleep, andThen, andWaitFor, defineWorkflow } from "agentserve";
import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createGates } from "../../harness/gates.ts";
import { bySize } from "../../harness/size.ts";
import { until } from "../../harness/waiting.ts";
import { newFile, query, serve } from "./serve.ts";

type Server = ReturnType<typeof serve>;

const hasStatus = (server: Server, id: string, status: string, workflow = "w"): Promise<void> =>
  until(async () => (await server.state(workflow, id)).status === status, `${id} to be ${status}`);
const suspend = async ({ post }: Server, id: string): Promise<void> =>
  expect((await post(`/workflows/w/executions/${id}/suspend`, {})).status).toBe(200);
const send = async ({ post }: Server, data: unknown, key?: string): Promise<void> =>
  expect((await post("/events", { name: "paid", data, ...(key !== undefined && { key }) })).status).toBe(202);

/** A schema that says that it checks a value, and waits until the test lets it. It refuses the value 7. */
function createSlowSchema() {
  const gates = createGates();
  const validate = async (value: unknown) => {
    await gates.pass(String(value));
    return value === 7 ? { issues: [{ message: "not 7" }] } : { value };
  };
  return { gates, schema: { "~standard": { version: 1 as const, vendor: "test", validate } } };
}

describe("an event is not missed", () => {
  it("takes an event that came while the execution was suspended by request, though a sleep beside it is over", async () => {
    const gates = createGates();
    const steps = [
      andWaitFor({ id: "paid", event: "paid" }),
      andSleep({ id: "nap", duration: "1h" }),
      andThen({ id: "gate", execute: () => gates.pass("gate") }),
    ] as const;
    const workflow = defineWorkflow({ id: "w" }).andAll({ id: "all", steps });
    const server = serve({ workflows: [workflow] });
    await server.begin("w");
    await gates.reached("gate");
    await suspend(server, "w");
    gates.open("gate");
    await server.clock.advance("2h");
    await send(server, "later than the sleep");
    await server.clock.advance("1h");
    expect((await server.resume("w")).status).toBe(202);
    await hasStatus(server, "w", "completed");
    expect((await server.state("w")).result[0]).toBe("later than the sleep");
  });

  it("takes an event that is checked while the execution suspends itself", async () => {
    const gates = createGates();
    const slow = createSlowSchema();
    const steps = [
      andWaitFor({ id: "paid", event: "paid", schema: slow.schema }),
      andThen({ id: "gate", execute: () => gates.pass("gate") }),
    ] as const;
    const server = serve({ workflows: [defineWorkflow({ id: "w" }).andAll({ id: "all", steps })] });
    await server.begin("w");
    await gates.reached("gate");
    await send(server, "paid");
    await slow.gates.reached("paid");
    gates.open("gate");
    await hasStatus(server, "w", "suspended");
    slow.gates.open("paid");
    await hasStatus(server, "w", "completed");
  });

  it("takes an event that is checked while the execution begins a retry delay", async () => {
    const gates = createGates();
    const slow = createSlowSchema();
    const steps = [
      andWaitFor({ id: "paid", event: "paid", schema: slow.schema }),
      andThen({
        id: "fails",
        retry: { attempts: 2, delay: 3_600_000 },
        async execute() {
          await gates.pass("fails");
          throw new Error("later");
        },
      }),
    ] as const;
    const file = newFile();
    const server = serve({ workflows: [defineWorkflow({ id: "w" }).andRace({ id: "race", steps })] }, { file });
    await server.begin("w");
    await gates.reached("fails");
    await send(server, "paid");
    await slow.gates.reached("paid");
    gates.open("fails");
    await until(() => query(file, "select * from timers").length === 1, "the execution to rest without a run");
    await server.clock.advance(0);
    slow.gates.open("paid");
    await hasStatus(server, "w", "completed");
  });

  it("takes an event that comes at any moment of a suspend or a resume", async () => {
    const gates = createGates();
    const steps = [
      andWaitFor({ id: "paid", event: "paid", key: ({ executionId }) => executionId }),
      andSleep({ id: "nap", duration: "1h" }),
      andThen({ id: "gate", execute: ({ executionId }) => gates.pass(executionId) }),
    ] as const;
    const server = serve({ workflows: [defineWorkflow({ id: "w" }).andAll({ id: "all", steps })] });
    // Not more: four hours pass at each of them, and an execution is kept for a week.
    const moments = Array.from({ length: bySize(24, 40) }, (_, index) => index);
    /** Sends the event some turns after a request has begun; every other one, before it. */
    const beside = async (ask: () => Promise<unknown>, id: string, turns: number): Promise<void> => {
      const asked = turns % 2 ? undefined : ask();
      for (let turn = 0; turn < turns; turn++) await setImmediate();
      const sent = send(server, "paid", id);
      await Promise.all([asked ?? ask(), sent]);
    };
    const play = async (turns: number, when: "suspend" | "resume"): Promise<void> => {
      const id = `${when}-${turns}`;
      await server.begin("w", id);
      await gates.reached(id);
      const ask = () => suspend(server, id);
      if (when === "suspend") await beside(ask, id, turns);
      else await ask();
      gates.open(id);
      await server.clock.advance("2h");
      if (when === "resume") await beside(() => server.resume("w", {}, id), id, turns);
      else await server.resume("w", {}, id);
    };
    for (const turns of moments) await Promise.all([play(turns, "suspend"), play(turns, "resume")]);
    for (const turns of moments)
      for (const when of ["suspend", "resume"]) await hasStatus(server, `${when}-${turns}`, "completed");
  });

  it("gives an execution that is resumed while its event is checked a place in its full group", async () => {
    const gates = createGates();
    const slow = createSlowSchema();
    const steps = [
      andWaitFor({ id: "paid", event: "paid", schema: slow.schema }),
      andThen({ id: "ask", execute: ({ suspend: ask, resumeData }) => resumeData ?? ask("?") }),
    ] as const;
    const workflow = defineWorkflow({ id: "w", concurrency: { limit: 1 } })
      .andThen({ id: "gate", execute: ({ executionId }) => (executionId === "w" ? "" : gates.pass(executionId)) })
      .andAll({ id: "all", steps })
      .andThen({ id: "end", execute: () => "done" });
    for (const data of [7, "paid"]) {
      const server = serve({ workflows: [workflow] });
      await server.begin("w");
      await hasStatus(server, "w", "suspended");
      await server.begin("w", `other-${data}`); // it has the only place
      await gates.reached(`other-${data}`);
      await send(server, data);
      await slow.gates.reached(String(data));
      expect((await server.resume("w", { resumeData: "yes" })).status).toBe(202);
      slow.gates.open(String(data));
      gates.open(`other-${data}`);
      slow.gates.open("again");
      if (data === 7) await send(server, "again");
      await hasStatus(server, "w", "completed");
    }
  });
});
