import { once } from "node:events";
import { connect } from "node:net";
import * as v from "valibot";
import { describe, expect, it, vi } from "vitest";
import { andAll, andRace, andThen, andWhen, defineWorkflow } from "agentserve";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { describeServer, startServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

const cycle: Record<string, unknown> = { a: 1 };
cycle["self"] = cycle;
class Money {
  amount = 1;
}
/** What a step must not return or throw, and what the author is told. */
const bad: Record<string, [make: () => unknown, error: string]> = {
  bigint: [() => ({ n: 1n }), "result.n is a BigInt: return a number or a string"],
  cycle: [() => cycle, "result.self contains itself"],
  date: [() => ({ when: new Date(0) }), "result.when is a Date: return a string"],
  nan: [() => [1, NaN], "result[1] is NaN: return null or a string"],
  infinity: [() => Infinity, "result is Infinity: return null or a string"],
  function: [() => ({ f: () => 1 }), "result.f is a function: return plain data"],
  symbol: [() => Symbol("x"), "result is a symbol: return a string"],
  map: [() => new Map(), "result is a Map: return a plain object"],
  instance: [() => ({ list: [new Money()] }), "result.list[0] is a Money: return a plain object"],
  hole: [() => [1, undefined], "result[1] is undefined: return null"],
  large: [() => "x".repeat(5_000_000), "result takes 5000002 bytes as JSON: at most 4194304 are kept"],
  deep: [() => JSON.parse("[".repeat(600) + "]".repeat(600)), /is nested deeper than 500 levels$/.source],
  "thrown-string": [
    () => {
      throw "just text";
    },
    "just text",
  ],
  "thrown-null": [
    () => {
      throw null;
    },
    "null",
  ],
  "thrown-undefined": [
    () => {
      throw undefined;
    },
    "undefined",
  ],
  rejected: [() => Promise.reject(new Error("no")), "no"],
};
const workflows = Object.entries(bad).map(([id, [make]]) =>
  defineWorkflow({ id }).andThen({ id: "step", execute: () => make() as never }),
);
const asked = (id: string) =>
  [`/workflows/${id}/execute`, { input: {}, options: { executionId: `bad-${id}` } }] as const;

describeServer("a value that JSON would lose", { config: { workflows }, only: ["dev"] }, (server) => {
  it.each(Object.entries(bad))("fails the step and names the place: %s", async (id, [, error]) => {
    const answer = await server.post(...asked(id));
    expect([answer.status, answer.body.error]).toEqual([500, "Failed to execute workflow"]);
    const state = (await server.get(`/workflows/${id}/executions/bad-${id}/state`)).body.data;
    expect(state).toMatchObject({
      status: "error",
      error: expect.stringMatching(id === "deep" ? new RegExp(error) : error.replace(/[[\].]/g, "\\$&")),
    });
  });
});

describe("a value that JSON keeps", () => {
  it("is given to every step as a copy of its own; undefined stays undefined, undefined properties go", async () => {
    const seen: unknown[] = [];
    const workflow = defineWorkflow({ id: "w" })
      .andThen({ id: "a", execute: () => ({ list: [1], gone: undefined }) })
      .andThen({
        id: "b",
        execute({ data, input, context }) {
          data.list.push(2);
          input["spoiled"] = true;
          (context.get("shared") as unknown[]).push("spoiled");
        },
      })
      .andThen({
        id: "c",
        execute({ data, getStepData, input, context }) {
          (getStepData("a") as { list: number[] }).list.push(3);
          seen.push(data, getStepData("a"), input, context.get("shared"), getStepData("b"), getStepData("nobody"));
          return null;
        },
      });
    const server = await startServer("in process", { config: { workflows: [workflow] } });
    const { body } = await server.post("/workflows/w/execute", {
      input: { n: 1 },
      options: { context: { shared: [] } },
    });
    expect(seen).toEqual([undefined, { list: [1] }, { n: 1 }, [], undefined, undefined]);
    expect(body.data.result).toBeNull();
    await server.close();
  });
});

describe("a step", () => {
  const run = async (workflow: unknown, input: object = {}) => {
    const server = await startServer("dev", { config: { workflows: [workflow as never] } });
    const answer = await server.post("/workflows/w/execute", { input, options: { executionId: "e" } });
    const state = (await server.get("/workflows/w/executions/e/state")).body.data;
    return { server, answer, state };
  };

  it("that times out has its signal aborted, and is tried again with attempt and the same idempotencyKey", async () => {
    const seen: unknown[] = [];
    const { server, state } = await run(
      defineWorkflow({ id: "w" }).andThen({
        id: "slow",
        timeout: 30,
        retry: { attempts: 2, delay: 5, backoff: 2 },
        async execute({ attempt, idempotencyKey, signal }) {
          if (attempt === 2) return [attempt, idempotencyKey];
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          seen.push(idempotencyKey, (signal.reason as Error).message);
          return "too late";
        },
      }),
    );
    expect(state).toMatchObject({ status: "completed", result: [2, "e/slow"] });
    expect(seen).toEqual(["e/slow", "Step slow timed out after 30 ms"]);
    await server.close();
  });

  it("that never settles can be cancelled", async () => {
    const aborted = vi.fn();
    const hangs = defineWorkflow({ id: "w" }).andThen({
      id: "hangs",
      execute: ({ signal }) => new Promise(() => signal.addEventListener("abort", aborted)),
    });
    const server = await startServer("start", { config: { workflows: [hangs] } });
    const waiting = server.post("/workflows/w/execute", { input: {}, options: { executionId: "e" } });
    await eventually(async () => expect((await server.get("/workflows/w/executions/e/state")).status).toBe(200));
    await server.post("/workflows/w/executions/e/cancel", {});
    expect((await waiting).status).toBe(409);
    expect(aborted).toHaveBeenCalledTimes(1);
    await server.close();
  });

  it("that catches its own suspension is suspended all the same", async () => {
    const { server, answer } = await run(
      defineWorkflow({ id: "w" }).andThen({
        id: "s",
        async execute({ suspend, resumeData }) {
          try {
            return resumeData ?? (await suspend("caught?"));
          } catch {
            return "swallowed";
          }
        },
      }),
    );
    expect(answer.body.data).toMatchObject({ status: "suspended", suspension: { reason: "caught?" } });
    await server.close();
  });

  it.each([
    ["inputSchema", { inputSchema: v.object({ n: v.number() }) }, "s: invalid input: n: "],
    ["outputSchema", { outputSchema: v.string() }, "s: invalid output: "],
  ])("is held to its %s at run time", async (_, schemas, error) => {
    const { server, state } = await run(
      defineWorkflow({ id: "w" }).andThen({ id: "s", ...schemas, execute: () => 1 } as never),
    );
    expect(state).toMatchObject({ status: "error", error: expect.stringContaining(error) });
    await server.close();
  });

  it("is held to the workflow's suspendSchema and result at run time", async () => {
    const suspends = await run(
      defineWorkflow({ id: "w", suspendSchema: v.string() }).andThen({
        id: "s",
        execute: ({ suspend }) => suspend("x", 1 as never),
      }),
    );
    expect(suspends.state.error).toMatch(/^s: invalid suspend data: /);
    await suspends.server.close();
    const results = await run(defineWorkflow({ id: "w", result: v.string() }).andThen({ id: "s", execute: () => 1 }));
    expect(results.state.error).toMatch(/invalid result: /);
    await results.server.close();
  });

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
    const lost = await run(defineWorkflow({ id: "w" }).andRace({ id: "r", steps: [fails("one"), fails("two")] }));
    expect(lost.state).toMatchObject({ status: "error", error: "two" });
    await lost.server.close();
  });

  it("of type andTap is logged when it fails, and changes nothing; a condition that throws fails", async () => {
    const tap = await run(
      defineWorkflow({ id: "w" }).andTap({ id: "t", execute: () => Promise.reject(new Error("tapped")) }),
    );
    expect(tap.state).toMatchObject({ status: "completed", result: {} });
    expect(tap.server.logs).toMatchObject([
      {
        level: "error",
        message: "Step failed",
        data: { error: new Error("tapped"), stepId: "t", executionId: "e", workflowId: "w" },
      },
    ]);
    await tap.server.close();
    const when = await run(
      defineWorkflow({ id: "w" }).andWhen({
        id: "c",
        condition: () => {
          throw new Error("unknowable");
        },
        step: andThen({ id: "s", execute: () => 1 }),
      }),
    );
    expect(when.state).toMatchObject({ status: "error", error: "unknowable" });
    await when.server.close();
    const suspends = await run(
      defineWorkflow({ id: "w" }).andTap({
        id: "t",
        execute: (context) => (context as never as { suspend(): void }).suspend(),
      }),
    );
    expect(suspends.state.status).toBe("completed");
    await suspends.server.close();
  });

  it("inherits the workflow's retry", async () => {
    const { server, state } = await run(
      defineWorkflow({ id: "w", retry: { attempts: 3 } }).andThen({
        id: "s",
        execute({ attempt }) {
          if (attempt < 3) throw new Error(`attempt ${attempt}`);
          return attempt;
        },
      }),
    );
    expect(state).toMatchObject({ status: "completed", result: 3 });
    const { events } = await server.get("/workflows/w/executions/e/stream");
    expect(events.find(({ type }) => type === "step-complete")).toMatchObject({ from: "s", attempt: 3 });
    await server.close();
  });

  it("may branch into nothing", async () => {
    const { server, state } = await run(
      defineWorkflow({ id: "w" })
        .andAll({ id: "none", steps: [] })
        .andWhen({
          id: "no",
          condition: () => false,
          step: andRace({ id: "r", steps: [andAll({ id: "x", steps: [] })] }),
        }),
    );
    expect(state).toMatchObject({ status: "completed", result: [] });
    await server.close();
    void andWhen;
  });
});

describe("emit", () => {
  it("puts an event of the author's own on the live stream, and only there", async () => {
    const workflow = defineWorkflow({ id: "w" }).andThen({
      id: "s",
      execute({ emit }) {
        emit({ type: "progress", percent: 50, executionId: "forged", from: "forged" });
        for (const event of [{ type: "workflow-result" }, { type: "step-start" }, {}, { type: "x", n: 1n }]) {
          expect(() => emit(event as never)).toThrow(/^(emit|event)/);
        }
        return 1;
      },
    });
    const server = await startServer("in process", { config: { workflows: [workflow] } });
    const { events } = await server.post("/workflows/w/stream", { input: {}, options: { executionId: "e" } });
    expect(events.filter(({ type }) => type === "progress")).toEqual([
      { type: "progress", percent: 50, executionId: "e", from: "s", timestamp: expect.any(String) },
    ]);
    expect(
      (await server.get("/workflows/w/executions/e/stream")).events.filter(({ type }) => type === "progress"),
    ).toEqual([]);
    await server.close();
  });
});

describe("the process", () => {
  it("lives through a floating rejection and a throw out of a timer, and shows nothing of the code in start", async () => {
    const folder = createProject({
      "agents.config.ts": "export default {};",
      "workflows/bad.ts": `import { defineWorkflow } from "agentserve";
export const floating = defineWorkflow({ id: "floating" }).andThen({ id: "s", execute() { void Promise.reject(new Error("floating secret")); return 1; } });
export const timer = defineWorkflow({ id: "timer" }).andThen({ id: "s", async execute() { setTimeout(() => { throw new Error("timer secret"); }); await new Promise((r) => setTimeout(r, 20)); return 2; } });
export const broken = defineWorkflow({ id: "broken" }).andThen({ id: "s", execute() { const somethingSecret = null; return somethingSecret!.field; } });
`,
    });
    const child = agentserve(["start", "--port", "0"], { cwd: folder });
    const [base] = await child.waitFor(/http:\/\/\S+:\d+/);
    const seen: string[] = [];
    const ask = async (path: string, body?: unknown) => {
      const init =
        body === undefined
          ? {}
          : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
      const response = await fetch(base + path, init);
      const text = await response.text();
      seen.push(text);
      return [response.status, text] as const;
    };
    for (const id of ["floating", "timer"]) expect((await ask(`/workflows/${id}/execute`, { input: {} }))[0]).toBe(200);
    expect((await ask("/workflows/broken/execute", { input: {}, options: { executionId: "b" } }))[0]).toBe(500);
    await ask("/workflows/broken/stream", { input: {} });
    for (const path of [
      "/workflows",
      "/workflows/broken",
      "/workflows/broken/executions/b/state",
      "/workflows/broken/executions/b/stream",
      "/workflows/broken/executions",
      "/doc",
      "/nope",
      "/workflows/%ff",
    ])
      await ask(path);
    const everything = seen.join("\n");
    for (const secret of [
      "secret",
      "somethingSecret",
      "Cannot read",
      "=>",
      "function",
      "    at ",
      folder,
      "node_modules",
      ".ts:",
      "execute()",
    ]) {
      expect(everything).not.toContain(secret);
    }
    await eventually(() =>
      expect(child.output().stderr).toMatch(/floating secret[\s\S]*timer secret|timer secret[\s\S]*floating secret/),
    );
    expect(child.process.exitCode).toBeNull();
    child.process.kill("SIGTERM");
    expect((await child.ended).code).toBe(0);
  });
});

const noisy = defineWorkflow({ id: "noisy" }).andThen({
  id: "s",
  async execute({ emit, signal }) {
    const pad = "x".repeat(1_000);
    for (let n = 0; n < 20_000 && !signal.aborted; n++) {
      emit({ type: "noise", n, pad });
      if (n % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return "done";
  },
});
describeServer(
  "a reader who stops reading",
  { config: { workflows: [noisy], server: { limits: { sseBufferBytes: 100_000 } } }, only: ["start"] },
  (server) => {
    it("costs at most the stated buffer, and cancels nothing", async () => {
      const { port } = new URL((await server.send("/workflows", {})).url);
      const body = JSON.stringify({ input: {}, options: { executionId: "noisy" } });
      const socket = connect(Number(port), "127.0.0.1");
      socket.write(
        `POST /workflows/noisy/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      await once(socket, "readable");
      socket.pause();
      await eventually(async () =>
        expect((await server.get("/workflows/noisy/executions/noisy/state")).body.data.status).toBe("completed"),
      );
      let got = "";
      socket.setEncoding("utf8").on("data", (chunk) => (got += chunk));
      socket.resume();
      await eventually(() => expect(got).toContain("workflow-result"));
      socket.destroy();
      const noise = got.match(/"type":"noise"/g)?.length ?? 0;
      console.log(`of 20,000 live events of 1 KB, ${noise} reached a reader who had stopped`);
      expect(noise).toBeGreaterThan(0);
      expect(noise).toBeLessThan(20_000); // what did not fit was dropped; the lifecycle is whole
      const seqs = [...got.matchAll(/"seq":(\d+)/g)].map(([, seq]) => Number(seq));
      expect(seqs).toEqual([1, 2, 3, 4]);
    });
  },
);
