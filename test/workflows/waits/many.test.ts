import { defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { bySize } from "../../harness/size.ts";
import { hour, newFile, query, serve } from "./serve.ts";

const limits = { runningExecutions: bySize(30, 256) };
const count = limits.runningExecutions + 10;
const ids = Array.from({ length: count }, (_, index) => `${index}`);

/** The executions whose last step ran, and those whose first attempt has failed. */
const ended: string[] = [];
const failed = new Set<string>();
const note = { id: "note", execute: ({ executionId }: { executionId: string }) => void ended.push(executionId) };
const retry = (id: string, delay: number) =>
  defineWorkflow({ id }).andThen({
    id: "pay",
    retry: { attempts: 2, delay },
    execute({ executionId, attempt }) {
      if (attempt === 2) return void ended.push(executionId);
      failed.add(executionId);
      throw new Error("not yet");
    },
  });
const waits = [
  defineWorkflow({ id: "sleep" }).andSleep({ id: "nap", duration: hour }).andThen(note),
  defineWorkflow({ id: "short-sleep" }).andSleep({ id: "nap", duration: "4s" }).andThen(note),
  defineWorkflow({ id: "event" }).andWaitFor({ id: "w", event: "go", timeout: hour }).andThen(note),
  retry("retry", hour),
  retry("short-retry", 4_000),
];
const other = defineWorkflow({ id: "other" })
  .andThen({ id: "a", execute: () => "a" })
  .andThen({ id: "b", execute: ({ data }) => `${data}b` });

it.each(waits.map(({ id }) => id))(
  "lets more executions wait than may run at once, shows them as what they are, and continues each once: %s",
  async (id) => {
    ended.length = 0;
    failed.clear();
    const file = newFile();
    const { begin, post, get, state, clock } = serve({ workflows: [...waits, other], server: { limits } }, { file });
    const answers = await Promise.all(ids.map((one) => begin(id, one)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    await clock.advance(0);
    expect(failed.size).toBe(id.endsWith("retry") ? count : 0);
    expect(ended).toEqual([]);
    expect(query(file, "select count(distinct number) as count from timers")).toEqual([{ count }]);

    // The clock does not move: with a slot of theirs, it would never end.
    for (let n = 0; n < 3; n++)
      expect((await post("/workflows/other/execute", { input: {} })).body.data).toMatchObject({ result: "ab" });
    const isSuspended = id === "sleep" || id === "event";
    expect((await state(id, "7")).status).toBe(isSuspended ? "suspended" : "running");
    expect((await get(`/workflows/${id}`)).body.data.status).toBe(isSuspended ? "idle" : "running");
    expect((await get("/workflows/other")).body.data.status).toBe("idle");
    const { body } = await get(`/workflows/${id}/executions?status=running&limit=200`);
    expect(body.data.items.length).toBe(isSuspended ? 0 : Math.min(200, count));

    await clock.advance(hour);
    expect(ended.toSorted()).toEqual(ids.toSorted());
    expect(query(file, "select distinct status from executions")).toEqual([{ status: "completed" }]);
    expect((await get(`/workflows/${id}`)).body.data.status).toBe("idle");
  },
);
