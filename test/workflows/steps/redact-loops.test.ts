import { andMap, andThen, andWaitFor, defineWorkflow, type StepContext } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeInProcess } from "../../harness/server.ts";
import { until } from "../../harness/waiting.ts";
import { as, createCalls, toRow, trusting } from "./world.ts";

/** The value that must not be found where values are redacted. */
const secret = "4111-1111-1111-1111";
const marker = { $redacted: true };
type Text = StepContext<string, unknown, unknown, unknown>;

const card = andThen({ id: "card", redact: true, execute: () => secret });
const loops = defineWorkflow({ id: "loops" })
  .andForEach({
    id: "each",
    items: () => [1, 2],
    steps: [card, andThen({ id: "length", execute: ({ data }: Text) => data.length })],
  })
  .andDoUntil({
    id: "until",
    steps: [
      andThen({ id: "open", execute: () => "open" }),
      andThen({ id: "hidden", redact: true, execute: (): string | number[] => secret }),
    ],
    condition: (context: { data: unknown }) => context.data === secret,
  } as never)
  .andBranch({
    id: "branch",
    branches: [
      {
        condition: ({ data }) => data === (secret as never),
        step: andThen({ id: "left", redact: true, execute: () => secret }),
      },
      { condition: () => true, step: andThen({ id: "right", execute: () => "right" }) },
    ],
  })
  .andMap({ id: "map", redact: true, map: { card: { source: "value", value: secret } } })
  .andForEach({
    id: "asks",
    items: () => [1],
    step: andThen({
      id: "ask",
      redact: true,
      execute: ({ suspend, resumeData }: Text) => resumeData ?? suspend("the card?", { card: secret } as never),
    }) as never,
  })
  .andThen({ id: "end", execute: () => "end" });

const waits = defineWorkflow({ id: "waits", input: v.object({ key: v.string() }) })
  .andForEach({
    id: "each",
    items: () => [1],
    step: andWaitFor({
      id: "paid",
      redact: true,
      event: "paid",
      key: ({ input }) => (input as { key: string }).key,
      schema: v.object({
        card: v.pipe(
          v.string(),
          v.check(
            (text) => text === secret,
            ({ input }) => `not ${input}`,
          ),
        ),
      }),
    }),
  })
  .andForEach({ id: "show", step: andMap({ id: "copy", map: { all: { source: "data" } } }) })
  .andThen({ id: "end", execute: () => "end" });

const quoting = v.pipe(
  v.any(),
  v.check(
    () => false,
    ({ input }) => `not ${JSON.stringify(input)}`,
  ),
);
/** Each fails at a schema that quotes the value. */
const failing = [
  defineWorkflow({ id: "own" }).andForEach({
    id: "each",
    items: () => [1],
    step: andThen({ id: "s", redact: true, outputSchema: quoting, execute: () => secret }),
  }),
  defineWorkflow({ id: "next" }).andForEach({
    id: "each",
    items: () => [1],
    steps: [card, andThen({ id: "s", inputSchema: quoting, execute: () => 1 }) as never],
  }),
  defineWorkflow({ id: "whole" }).andForEach({
    id: "each",
    redact: true,
    items: () => [secret],
    step: andThen({ id: "s", inputSchema: quoting, execute: () => 1 }),
  }),
  defineWorkflow({ id: "mapped" }).andMap({
    id: "s",
    redact: true,
    outputSchema: quoting,
    map: { card: { source: "value", value: secret } },
  }),
];

const config = { workflows: [loops, waits, ...failing], auth: trusting };

describeInProcess("redact: true inside loops, branches and waits", config, (server) => {
  const calls = (workflow: string) => createCalls(server, workflow, `${workflow}-loops`);
  const streamOf = async (path: string) => (await server.get(`${path}/stream?after=0`, as("ada"))).text;
  const logged = async () =>
    JSON.stringify([
      (await server.get("/api/logs?limit=1000", as("ada"))).text,
      [...server.logs, ...server.activity].map(({ message, data }) => [
        message,
        data,
        (data?.["error"] as Error | undefined)?.stack,
      ]),
    ]);

  it("keeps redacted values in loops and branches out of the steps and their events", async () => {
    const one = calls("loops");
    await one.execute();
    const [waiting] = await one.steps("?path=asks/0/ask");
    expect(waiting).toMatchObject({ status: "suspended", redacted: true });
    expect(waiting!.suspension).toEqual({ suspendedAt: expect.any(String), kind: "person", reason: "the card?" });
    await one.post("resume", { resumeData: { card: secret }, options: { stepId: "asks/0/ask" } });

    const top = await one.steps();
    expect(top.map(({ path, output, redacted }) => [path, output, redacted])).toEqual([
      ["each", [secret.length, secret.length], undefined],
      ["until", marker, undefined],
      ["branch", [marker, "right"], undefined],
      ["left", undefined, true],
      ["right", "right", undefined],
      ["map", undefined, true],
      ["asks", [marker], undefined],
      ["end", "end", undefined],
    ]);
    const items = [...(await one.steps("?under=each")), ...(await one.steps("?under=until"))];
    expect(items.map(toRow).filter(([line]) => String(line).includes("/0"))).toEqual([
      ["each/0 item success in each []", 1, secret.length],
      ["each/0/card andThen success in each/0 [1]", undefined, undefined],
      ["each/0/length andThen success in each/0 [1]", marker, secret.length],
      ["until/0 iteration success in until [1]", [secret.length, secret.length], marker],
      ["until/0/open andThen success in until/0 [1]", [secret.length, secret.length], "open"],
      ["until/0/hidden andThen success in until/0 [1]", undefined, undefined],
    ]);
    const whole = await Promise.all([...top, ...items].map(({ path }) => one.steps(`?path=${path}`)));
    expect(JSON.stringify([top, items, whole])).not.toContain("4111-1111");
    // The suspension is part of the state, which is not redacted; no other event has a value.
    const events = (await streamOf(one.path)).split("\n\n").filter((text) => !text.includes("workflow-suspended"));
    expect(events.join("\n")).toContain("asks/0/ask");
    expect(events.join("\n")).not.toContain("4111-1111");
  });

  it("keeps the data and key of a redacted event out of the steps and the log", async () => {
    const one = calls("waits");
    const key = `${secret}-key`;
    await one.execute({ key });
    const [waiting] = await one.steps("?path=each/0/paid");
    expect(waiting!.suspension).toEqual({
      suspendedAt: expect.any(String),
      kind: "event",
      event: "paid",
      reason: "Waiting for event paid",
    });
    await server.post("/events", { name: "paid", key, data: { card: `${secret} wrong` } }, as("ada"));
    await until(async () => (await logged()).includes("An event does not match the schema"), "the warning");
    await server.post("/events", { name: "paid", key, data: { card: secret } }, as("ada"));
    const statusOf = async () => (await server.get(`${one.path}/state`, as("ada"))).body.data.status;
    await until(async () => (await statusOf()) === "completed", "the end");
    expect((await one.steps()).map(({ path, input, output }) => [path, input, output])).toEqual([
      ["each", { key }, [marker]],
      ["show", [marker], expect.anything()],
      ["end", expect.anything(), "end"],
    ]);
    expect(await logged()).not.toContain("4111-1111");
    expect(await streamOf(one.path)).toContain("each/0/paid");
  });

  it("keeps redacted values in loops out of the log and the errors, also if a schema quotes the value", async () => {
    for (const { id } of failing) {
      const one = calls(id);
      expect((await one.execute()).status, id).toBe(500);
      const all = [...(await one.steps()), ...(await one.steps("?status=error"))];
      expect(JSON.stringify(all), id).not.toContain("4111-1111");
      expect((await server.get(`${one.path}/state`, as("ada"))).text, id).not.toContain("4111-1111");
      expect(await streamOf(one.path), id).not.toContain("4111-1111");
    }
    expect(await logged()).toContain("(redacted)");
    expect(await logged()).not.toContain("4111-1111");
  });
});
