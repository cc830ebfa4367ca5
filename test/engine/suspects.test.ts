import { defineWorkflow, embedded } from "agentserve";
import { createClock, createServer, type TestClock } from "agentserve/testing";
import { expect, it, vi } from "vitest";
import { ProcessTable } from "../../src/backends/embedded/store/tables/process-table.ts";
import { newFile } from "../harness/folders.ts";

/** An execution of one step, in seconds: the step takes that long, or ends the process after that time. */
interface Part {
  readonly takes?: number;
  readonly diesAfter?: number;
}
const innocent: Part = { takes: 120 };
const deadly: Part = { diesAfter: 1 };

/** A server on one file, restarted after each crash. Every life has a clock that starts anew. */
class Lives {
  /** The ids whose step has run in this life, in order. */
  ran: string[] = [];
  readonly #path = newFile();
  readonly #parts: Readonly<Record<string, Part>>;
  readonly #begun = new Set<string>();
  #died = false;
  #server!: ReturnType<typeof createServer>;
  #clock!: TestClock;

  constructor(parts: Readonly<Record<string, Part>>) {
    this.#parts = parts;
  }

  /** One life: begins executions, and ends by a crash or when nothing runs. Returns true after a crash. */
  async live({
    begin = [],
    killAfter = 1_200,
  }: { begin?: readonly string[]; killAfter?: number } = {}): Promise<boolean> {
    this.ran = [];
    this.#died = false;
    const clock = (this.#clock = createClock());
    const workflow = defineWorkflow({ id: "w" }).andThen({
      id: "s",
      execute: async ({ executionId }) => {
        const { takes, diesAfter } = this.#parts[executionId]!;
        this.ran.push(executionId);
        await new Promise<void>((resolve) => clock.setTimeout(resolve, 1_000 * (takes ?? diesAfter!)));
        if (takes !== undefined || this.#clock !== clock) return "made it";
        this.#died = true;
        return new Promise(() => {});
      },
    });
    const backend = embedded({ path: this.#path, retention: false });
    this.#server = createServer({ workflows: [workflow], backend, server: { limits: { drainMs: 1 } } }, { clock });
    await this.#server.ready();
    for (const id of begin) await this.#begin(id);
    for (let second = 0; second < killAfter && !this.#died; second++) {
      await clock.advance(1_000);
      const states = await this.states();
      if (!Object.values(states).includes("running")) return false;
    }
    await this.#crash();
    return true;
  }

  /** Lives until nothing runs. Returns the number of crashes. */
  async liveOn(): Promise<number> {
    for (let crashes = 0; crashes < 20; crashes++) if (!(await this.live())) return crashes;
    throw new Error("It crashes for ever");
  }

  async states(): Promise<Record<string, string>> {
    const pairs = [...this.#begun].map(async (id) => {
      const response = await this.#server.fetch(new Request(`http://x/workflows/w/executions/${id}/state`));
      return [id, ((await response.json()) as any).data.status];
    });
    return Object.fromEntries(await Promise.all(pairs));
  }

  async close(): Promise<void> {
    await this.#server.close();
  }

  async #begin(executionId: string): Promise<void> {
    const headers = { "content-type": "application/json", prefer: "respond-async" };
    const body = JSON.stringify({ input: {}, options: { executionId } });
    await this.#server.fetch(new Request("http://x/workflows/w/execute", { method: "POST", headers, body }));
    this.#begun.add(executionId);
  }

  /** The file does not say that the server was closed. */
  async #crash(): Promise<void> {
    const end = vi.spyOn(ProcessTable.prototype, "end").mockImplementation(() => {});
    await this.#server.close();
    end.mockRestore();
  }
}

/** Two crashes have interrupted everything that was begun. */
async function crashTwice(parts: Record<string, Part>, begin = Object.keys(parts)): Promise<Lives> {
  const lives = new Lives(parts);
  expect(await lives.live({ begin, killAfter: 1 })).toBe(true);
  expect(await lives.live({ killAfter: 1 })).toBe(true);
  expect(lives.ran).toEqual(begin);
  return lives;
}
const completed = (...ids: string[]) => Object.fromEntries(ids.map((id) => [id, "completed"]));

it.each([1, 3, 6])(
  "suspends only the step that ends the process, beside five of two minutes, when it is number %i",
  async (place) => {
    const ids = ["a", "b", "c", "d", "e"].toSpliced(place - 1, 0, "deadly");
    const lives = await crashTwice(Object.fromEntries(ids.map((id) => [id, id === "deadly" ? deadly : innocent])));
    expect(await lives.liveOn()).toBe(1);
    expect(await lives.states()).toEqual({ ...completed("a", "b", "c", "d", "e"), deadly: "suspended" });
    await lives.close();
  },
);

it("runs a suspect alone to its next row when it ran beside the one for which the third crash counted", async () => {
  const lives = await crashTwice({ a: innocent, b: innocent, deadly });
  expect(await lives.live()).toBe(true);
  expect(lives.ran).toEqual(["a", "b", "deadly"]);
  expect(await lives.live({ killAfter: 100 })).toBe(true);
  expect(lives.ran, "it is alone for more than 30 seconds").toEqual(["a"]);
  await lives.live();
  expect(await lives.states()).toEqual({ a: "suspended", b: "completed", deadly: "suspended" });
  await lives.close();
});

it("suspends two steps that end the process after one crash each, and completes those beside them", async () => {
  const lives = await crashTwice({ a: innocent, first: deadly, b: innocent, second: deadly, c: innocent });
  expect(await lives.liveOn()).toBe(2);
  expect(await lives.states()).toEqual({ ...completed("a", "b", "c"), first: "suspended", second: "suspended" });
  await lives.close();
});

it("starts no suspect beside an execution that one crash has interrupted", async () => {
  const lives = new Lives({ a: innocent, first: deadly, second: deadly });
  expect(await lives.live({ begin: ["a", "first"] })).toBe(true);
  expect(await lives.live({ begin: ["second"] })).toBe(true);
  expect(await lives.live()).toBe(true);
  expect(lives.ran).toEqual(["second"]);
  expect(await lives.liveOn()).toBe(2);
  expect(await lives.states()).toEqual({ a: "completed", first: "suspended", second: "suspended" });
  await lives.close();
});

it("suspends one suspect per crash when a step ends the process after another one has started", async () => {
  const lives = await crashTwice({ late: { diesAfter: 40 }, a: innocent, b: innocent, c: innocent });
  expect(await lives.live()).toBe(true);
  expect(lives.ran).toEqual(["late", "a"]);
  expect(await lives.live()).toBe(true);
  expect(lives.ran, "the one that ran beside the third crash is alone").toEqual(["late"]);
  expect(await lives.liveOn()).toBe(0);
  expect(await lives.states()).toEqual({ late: "suspended", a: "suspended", ...completed("b", "c") });
  await lives.close();
});

it("counts the third crash for the suspect that still runs when those after it have ended", async () => {
  const lives = await crashTwice({ late: { diesAfter: 40 }, a: { takes: 5 }, b: { takes: 5 } });
  expect(await lives.liveOn()).toBe(1);
  expect(await lives.states()).toEqual({ late: "suspended", ...completed("a", "b") });
  await lives.close();
});

it("suspends the step that ends the process though a kill came while another one ran alone", async () => {
  const lives = await crashTwice({ a: innocent, deadly });
  expect(await lives.live({ killAfter: 10 })).toBe(true);
  expect(lives.ran).toEqual(["a"]);
  expect(await lives.liveOn()).toBe(1);
  expect(await lives.states()).toEqual({ a: "suspended", deadly: "suspended" });
  await lives.close();
});
