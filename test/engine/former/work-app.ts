// The agents, workflows and schedules that the server of a former build and that of today have in common. Each step that may
// run again writes a line to the file `ran`. Steps wait for the file `open`, or for that of their execution.
import { appendFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { tool } from "ai";
import { z } from "zod";
import {
  andSleepUntil,
  andThen,
  defineAgent,
  defineSchedule,
  defineWorkflow,
  embedded,
  type Config,
} from "../../../src/index.ts";
import { scriptedModel } from "../../../src/models.ts";

/** The text that is too long to be stored inside of a row. */
const long = "long ".repeat(210);

export default function create({ folder }: { readonly folder: string }): { config: Config } {
  const ran = (line: string): void => appendFileSync(join(folder, "ran"), `${line}\n`);
  const is = (file: string): boolean => existsSync(join(folder, file));
  async function pass(signal: AbortSignal | undefined, { of }: { readonly of?: unknown } = {}): Promise<void> {
    while (!is("open") && !is(`open-${String(of)}`)) await sleep(10, undefined, { ...(signal && { signal }) });
  }
  const note = (id: string, value: unknown = id): any =>
    andThen({
      id,
      execute({ executionId }) {
        ran(`${executionId} ${id}`);
        return value;
      },
    });
  const gated = (id: string): any =>
    andThen({
      id,
      async execute({ executionId, input, idempotencyKey, signal }) {
        ran(`${executionId} ${id} ${idempotencyKey}`);
        await pass(signal, input as { of?: unknown });
        return id;
      },
    });
  const ask = (id: string): any =>
    andThen({ id, execute: ({ suspend, resumeData }) => resumeData ?? suspend(`${id}?`, { question: id } as never) });

  const again: any = andThen({ id: "again", execute: ({ data }) => (data === "once" ? "twice" : "once") });

  const sub = defineWorkflow({ id: "sub" }).andThen(note("inner")).andThen(ask("confirm"));
  const short = defineWorkflow({ id: "short" }).andThen(note("only"));
  const gate = defineWorkflow({ id: "gate" }).andThen(gated("gated"));
  const workflows = [
    sub,
    short,
    gate,
    defineWorkflow({ id: "outer" }).andThen({
      id: "start",
      async execute({ executionId, input, runtime }) {
        ran(`${executionId} start`);
        return (await runtime.start(gate, input)).result();
      },
    }),
    defineWorkflow({
      id: "line",
      concurrency: { limit: 1, key: ({ input }) => String((input as { of?: unknown }).of).split("-")[0]! },
    }).andThen(gated("gated")),
    defineWorkflow({ id: "patient" }).andThen({
      id: "retried",
      retry: { attempts: 3, delay: 315_360_000_000 }, // ten years
      execute({ executionId, attempt }) {
        ran(`${executionId} retried ${attempt}`);
        if (!is("mended")) throw new Error("Not mended");
        return "mended";
      },
    }),
    defineWorkflow({ id: "approve" })
      .andThen(note("prepare", { long }))
      .andThen(ask("ask"))
      .andThen({ id: "end", execute: ({ data, getStepData }) => ({ data, long: getStepData("prepare") }) }),
    defineWorkflow({ id: "both" })
      .andAll({
        id: "all",
        steps: [ask("one"), andSleepUntil({ id: "date", date: "2199-01-01T00:00:00Z" }), note("beside")],
      })
      .andThen(note("end")),
    defineWorkflow({ id: "flaky" })
      .andThen(note("first"))
      .andThen({
        id: "second",
        retry: { attempts: 2, delay: 1 },
        execute({ executionId, attempt, idempotencyKey }) {
          ran(`${executionId} second ${attempt} ${idempotencyKey}`);
          if (!is("mended")) throw new Error("Not mended");
          return "mended";
        },
      })
      .andThen(note("third")),
    defineWorkflow({ id: "slow" })
      .andThen(note("first"))
      .andAll({ id: "all", steps: [note("done"), gated("gated")] })
      .andThen(note("last")),
    defineWorkflow({ id: "loop" })
      .andForEach({
        id: "each",
        items: () => [1, 2, 3],
        step: andThen({
          id: "item",
          async execute({ executionId, input, data, signal }) {
            ran(`${executionId} item ${String(data)}`);
            if (data === 3) await pass(signal, input as { of?: unknown });
            return data;
          },
        }),
      })
      .andThen(note("end")),
    // Suspended after rows of each kind.
    defineWorkflow({ id: "journey" })
      .andWhen({ id: "when", condition: () => true, step: note("inside") })
      .andRace({ id: "race", steps: [ask("loser"), note("winner")] })
      .andDoWhile({ id: "while", condition: ({ data }) => data === "once", step: again })
      .andBranch({
        id: "branch",
        branches: [false, true].map((holds) => ({ condition: () => holds, step: note(`is-${holds}`) })),
      })
      .andSleep({ id: "nap", duration: 1 })
      .andWaitFor({ id: "go", event: "go", timeout: "3650d" })
      .andMap({ id: "map", map: { event: { source: "step", stepId: "go" } } })
      .andThen(ask("first"))
      .andThen(ask("second"))
      .andThen({
        id: "end",
        execute: ({ getStepData }) => [getStepData("map"), getStepData("first"), getStepData("second")],
      }),
    defineWorkflow({ id: "nested" })
      .andThen(note("before"))
      .andWorkflow({ id: "sub", workflow: sub as any })
      .andThen(note("after")),
    defineWorkflow({ id: "parent" })
      .andThen({
        id: "start",
        async execute({ executionId, runtime }) {
          ran(`${executionId} start`);
          const child = await runtime.start(short, {});
          return { child: child.executionId, ...(await child.result()) };
        },
      })
      .andThen(ask("ask")),
    defineWorkflow({ id: "waits" })
      .andWaitFor({ id: "paid", event: "paid", key: ({ executionId }) => executionId, timeout: "3650d" })
      .andThen({ id: "end", execute: ({ data }) => ({ paid: data }) }),
    defineWorkflow({ id: "takes" })
      .andThen(ask("ask"))
      .andWaitFor({ id: "news", event: "news", since: "always" })
      .andThen({ id: "end", execute: ({ data }) => ({ news: data }) }),
  ];

  const answer = ({ prompt }: { prompt: readonly { role: string; content: unknown }[] }) => {
    const last = prompt.at(-1)!;
    const text = JSON.stringify(last.content);
    const call = (toolName: string) => ({
      toolCalls: [{ toolCallId: `${toolName}-1`, toolName, input: { amount: 5 } }],
    });
    if (last.role === "user" && text.includes("Pay")) return call("pay");
    if (last.role === "user" && text.includes("Hold")) return call("hold");
    return { text: `${prompt.length} messages, the last of ${last.role}` };
  };
  const inputSchema = z.object({ amount: z.number() });
  const talker = defineAgent({
    id: "talker",
    instructions: "Talk",
    model: scriptedModel(Array.from({ length: 20 }, () => answer as never)),
    tools: {
      pay: tool({
        description: "Pays",
        inputSchema,
        needsApproval: true,
        execute({ amount }) {
          ran(`pay ${amount}`);
          return { paid: amount };
        },
      }),
      hold: tool({
        description: "Holds",
        inputSchema,
        async execute({ amount }, { abortSignal }) {
          ran(`hold ${amount}`);
          await pass(abortSignal);
          return { held: amount };
        },
      }),
    },
  });
  const schedules = [
    defineSchedule({ id: "yearly", cron: "0 3 29 2 *", workflow: short }),
    defineSchedule({ id: "ticks", every: "1s", workflow: short }),
  ];
  const retention = { executions: false, conversations: false, events: "3650d" } as const;
  return {
    config: {
      agents: [talker],
      workflows,
      schedules,
      backend: embedded({ path: join(folder, "data.db"), retention }),
      server: { limits: { drainMs: 1, drainNoticeMs: 0 } },
    },
  };
}
