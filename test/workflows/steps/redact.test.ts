import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { andAll, andTap, andThen, andWhen, andWorkflow, defineAgent, defineWorkflow, embedded } from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { describeServer, startServer } from "../../harness/server.ts";
import { as, createCalls, trusting } from "./world.ts";

/** The value that must not be found anywhere. A part of it is the same secret. */
const secret = "4111-1111-1111-1111";
const card = (): { card: string } => ({ card: secret });
const marker = { $redacted: true };

const agent = defineAgent({
  id: "helper",
  instructions: "",
  model: scriptedModel(Array.from({ length: 50 }, () => secret)),
});
const sub = defineWorkflow({ id: "sub", input: v.unknown(), result: v.unknown() })
  .andTap({ id: "look", execute: () => {} })
  .andThen({ id: "last", redact: true, execute: card });
const inner = defineWorkflow({ id: "inner", input: v.unknown() })
  .andThen({ id: "deep", execute: card })
  .andThen({ id: "deeper", execute: () => "harmless" });

const redacted = defineWorkflow({ id: "redacted" })
  .andThen({ id: "secret", redact: true, execute: card })
  .andTap({ id: "tap", execute: () => {} })
  .andWhen({ id: "skipped", condition: () => false, step: andThen({ id: "no", execute: () => 1 }) })
  .andWhen({ id: "when", condition: () => true, step: andTap({ id: "yes", execute: () => {} }) })
  .andWorkflow({ id: "checks", workflow: sub })
  .andAll({
    id: "all",
    steps: [andThen({ id: "card", redact: true, execute: card }), andThen({ id: "open", execute: () => "open" })],
  })
  .andRace({ id: "race", steps: [andTap({ id: "only", execute: () => {} })] })
  .andWorkflow({ id: "whole", redact: true, workflow: inner })
  .andThen({ id: "after", execute: () => "after" })
  .andAgent({ id: "agent", redact: true, agent, prompt: "Which card?" })
  .andThen({
    id: "ask",
    redact: true,
    execute: ({ resumeData, suspend }) => resumeData ?? suspend("the card?", { card: secret }),
  })
  .andThen({ id: "end", execute: () => "end" });

const number = v.object({
  card: v.pipe(
    v.string(),
    v.check(
      () => false,
      ({ input }) => `not ${input}`,
    ),
  ),
});
/** Each fails at a schema that quotes the value. */
const failing = [
  defineWorkflow({ id: "output" }).andThen({ id: "s", redact: true, outputSchema: number, execute: card }),
  defineWorkflow({ id: "next" })
    .andThen({ id: "s", redact: true, execute: card })
    .andTap({ id: "between", execute: () => {} })
    .andThen({ id: "t", inputSchema: number, execute: () => 1 }),
  defineWorkflow({ id: "result", result: number }).andThen({ id: "s", redact: true, execute: card }),
  defineWorkflow({ id: "nested" })
    .andAll({ id: "all", steps: [andThen({ id: "s", redact: true, execute: card })] })
    .andWorkflow({
      id: "w",
      workflow: defineWorkflow({
        id: "quoting",
        input: v.pipe(
          v.any(),
          v.check(
            () => false,
            (issue) => JSON.stringify(issue.input),
          ),
        ),
      }),
    }),
  defineWorkflow({ id: "suspends" }).andThen({
    id: "s",
    redact: true,
    suspendSchema: number,
    execute: ({ suspend }) => suspend("?", card()),
  }),
  defineWorkflow({ id: "around" }).andWhen({
    id: "w",
    redact: true,
    condition: () => true,
    step: andWorkflow({
      id: "in",
      workflow: defineWorkflow({ id: "deep" }).andThen({ id: "s", outputSchema: number, execute: card }),
    }),
  }),
];
const config = { workflows: [redacted, ...failing], agents: [agent], auth: trusting };

describeServer("redact: true", { config, only: ["dev"] }, (server) => {
  it("keeps redacted values out of the steps, also where other steps have them", async () => {
    const one = createCalls(server, "redacted", "redacted");
    await one.execute();
    const waiting = (await one.steps()).at(-1)!;
    expect(waiting).toMatchObject({ path: "ask", status: "suspended", redacted: true });
    expect(waiting.suspension).toEqual({ suspendedAt: expect.any(String), kind: "person", reason: "the card?" });
    await one.post("resume", { resumeData: { card: secret } });
    const steps = await one.steps();
    expect(steps.map(({ path, input, output, redacted: mark }) => [path, input, output, mark])).toEqual([
      ["secret", undefined, undefined, true],
      ["tap", marker, marker, undefined],
      ["skipped", marker, marker, undefined],
      ["when", marker, marker, undefined],
      ["yes", marker, marker, undefined],
      ["checks", marker, marker, undefined],
      ["checks/look", marker, marker, undefined],
      ["checks/last", undefined, undefined, true],
      ["all", marker, [marker, "open"], undefined],
      ["card", undefined, undefined, true],
      ["open", marker, "open", undefined],
      ["race", [marker, "open"], [marker, "open"], undefined],
      ["only", [marker, "open"], [marker, "open"], undefined],
      ["whole", undefined, undefined, true],
      ["whole/deep", undefined, undefined, true],
      ["whole/deeper", undefined, undefined, true],
      ["after", marker, "after", undefined],
      ["agent", undefined, undefined, true],
      ["ask", undefined, undefined, true],
      ["end", marker, "end", undefined],
    ]);
    const whole = await Promise.all(steps.map(({ path }) => one.steps(`?path=${path}`)));
    expect(JSON.stringify([steps, whole])).not.toContain("4111-1111");
  });

  it("keeps redacted values out of logs and spans, also if a schema quotes the value", async () => {
    const socket = await server.socket("/ws/observability", as("ada"));
    const received: string[] = [];
    socket.ws.on("message", (data) => received.push(String(data)));
    const one = createCalls(server, "redacted", "logged");
    await one.execute();
    await one.post("resume", { resumeData: { card: secret } });
    for (const { id } of failing) {
      const broken = createCalls(server, id, `broken-${id}`);
      expect((await broken.execute()).status, id).toBe(500);
      const steps = await broken.steps();
      expect(JSON.stringify(steps), id).not.toContain("4111-1111");
      expect((await server.get(`${broken.path}/state`)).text).not.toContain("4111-1111");
      if (id === "result") continue;
      const errors = steps.flatMap(({ attempts }) => attempts.flatMap(({ error }) => error ?? []));
      expect(errors.join(), id).toMatch(/invalid (output|input|suspend data): \(redacted\)/);
    }
    const logs = await server.get("/api/logs?limit=1000", as("ada"));
    expect(logs.text).toContain("(redacted)");
    expect(logs.text).not.toContain("4111-1111");
    const errors = [...server.logs, ...server.activity].map(({ message, data }) => [
      message,
      JSON.stringify(data),
      (data?.["error"] as Error | undefined)?.stack,
    ]);
    expect(JSON.stringify(errors)).not.toContain("4111-1111");
    await expect.poll(() => received.filter((text) => text.includes("step in/s")).length).toBeGreaterThan(0);
    expect(received.some((text) => text.includes("(redacted)"))).toBe(true);
    expect(received.filter((text) => text.includes("4111-1111"))).toEqual([]);
    socket.close();
  });
});

describe("redact and code that changes", () => {
  it("redacts executions that began before the option was set, and those whose workflow has lost it", async () => {
    const before = defineWorkflow({ id: "w" })
      .andThen({ id: "a", execute: card })
      .andThen({ id: "b", execute: () => 1 });
    const after = defineWorkflow({ id: "w" })
      .andThen({ id: "a", redact: true, execute: card })
      .andThen({ id: "b", execute: () => 1 });
    for (const [first, second] of [
      [before, after],
      [after, before],
    ] as const) {
      const path = join(mkdtempSync(join(tmpdir(), "agentserve-redact-")), "data.db");
      const open = (workflow: typeof before) =>
        startServer("dev", { config: { workflows: [workflow], backend: embedded({ path }) } });
      const one = await open(first);
      await one.post("/workflows/w/execute", { input: {}, options: { executionId: "e" } });
      expect((await one.get("/workflows/w/executions/e/steps")).text.includes("4111-1111")).toBe(first === before);
      await one.close();
      const other = await open(second);
      expect((await other.get("/workflows/w/executions/e/steps")).text).not.toContain("4111-1111");
      await other.close();
    }
  });

  it("refuses a redact that is not a boolean", () => {
    const options = { id: "a", redact: "yes", execute: () => 1 };
    expect(() => defineWorkflow({ id: "w" }).andThen(options as never)).toThrow(
      'andThen a: redact: expected true or false, found "yes"',
    );
    expect(() => andAll({ id: "all", redact: 1, steps: [] } as never)).toThrow("andAll all: redact");
    expect(() =>
      andWhen({ id: "w", redact: null, condition: () => true, step: andTap({ id: "t", execute: () => {} }) } as never),
    ).toThrow("andWhen w: redact");
  });
});
