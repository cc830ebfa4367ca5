import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Answer } from "../../harness/former-build.ts";
import { until } from "../../harness/waiting.ts";

/** Sends a request, with POST if it has a body. */
export type Ask = (path: string, body?: object) => Promise<Answer>;
/** The answers by request, in the order of the requests. */
export type Answers = Record<string, unknown>;

const pathOf = (workflow: string, id: string, rest: string): string =>
  `/workflows/${workflow}/executions/${id}/${rest}`;
const execute = (workflow: string, executionId: string) =>
  [`/workflows/${workflow}/execute`, { input: { of: executionId }, options: { executionId, userId: "ada" } }] as const;
const talk = (conversationId: string, input: string) =>
  ["/agents/talker/text", { input, options: { userId: "ada", conversationId } }] as const;
const linesOf = (folder: string): string[] => readFileSync(join(folder, "ran"), "utf8").split("\n").slice(0, -1);

/** Begins the executions and conversations of a file. The caller kills the server afterwards. */
export async function beginWork(send: Ask, folder: string): Promise<void> {
  const ask: Ask = async (path, body) => {
    const answer = await send(path, body);
    // A failed execution is a 500.
    if (answer.status >= 400 && answer.status !== 500) throw new Error(`${path}: ${JSON.stringify(answer)}`);
    return answer;
  };
  const ids: Record<string, readonly string[]> = {
    approve: ["suspended", "suspended-2", "completed", "cancelled"],
    both: ["both", "both-cancelled"],
    flaky: ["failed", "failed-2"],
    journey: ["journey", "journey-back"],
    nested: ["nested", "nested-completed"],
    parent: ["parent"],
    waits: ["waits", "waited"],
    takes: ["takes"],
  };
  for (const [workflow, own] of Object.entries(ids)) for (const id of own) await ask(...execute(workflow, id));
  await ask(pathOf("approve", "completed", "resume"), { resumeData: "yes" });
  await ask(pathOf("nested", "nested-completed", "resume"), { resumeData: "yes" });
  await ask(pathOf("approve", "cancelled", "cancel"), { reason: "No longer needed" });
  await ask(pathOf("approve", "completed", "fork"), { fromStep: "ask", options: { executionId: "fork-suspended" } });
  await ask(pathOf("approve", "completed", "fork"), { fromStep: "end", options: { executionId: "fork-completed" } });
  await ask(pathOf("flaky", "failed", "fork"), { options: { executionId: "fork-failed" } });
  await ask(pathOf("flaky", "failed-2", "retry"), {});
  await ask("/events", { name: "go", data: "went", id: "go-1" });
  for (const id of ["journey", "journey-back"]) {
    await until(async () => (await ask(pathOf("journey", id, "state"))).body.data.suspension?.kind === "person", id);
    await ask(pathOf("journey", id, "resume"), { resumeData: "one" });
  }
  await ask(pathOf("journey", "journey-back", "resume"), { resumeData: "two", options: { stepId: "first" } });
  await ask("/events", { name: "paid", key: "waited", data: { amount: 7 }, id: "payment-7" });
  await ask("/events", { name: "news", data: "stored", id: "news-1" });
  await until(async () => (await ask("/schedules")).body.data.some(({ lastAt }: any) => lastAt), "a tick");
  await ask("/schedules/ticks/pause", {});
  await ask(...talk("talked", "Hello"));
  await ask(...talk("talked", "More"));
  await ask(...talk("approval", "Pay 5"));
  // These have no answer before the kill.
  const begin = ([path, body]: readonly [string, object]): void => void ask(path, body).catch(() => {});
  for (const request of [execute("slow", "running"), execute("loop", "looping"), execute("outer", "outer")])
    begin(request);
  begin(talk("turn", "Hold 5"));
  begin(execute("line", "line-first"));
  begin(execute("patient", "retrying"));
  await untilBusy(folder);
  begin(execute("line", "line-second"));
  const stepsOf = async (workflow: string, id: string) => (await ask(pathOf(workflow, id, "steps"))).body.data.items;
  await until(async () => (await stepsOf("patient", "retrying"))[0]?.status === "waiting", "a failed attempt");
  await until(async () => (await ask("/executions?workflowId=line")).body.data.items.length === 2, "the line");
}

const inFlight = [
  /^running gated/,
  /^looping item 3/,
  /^outer start/,
  /^child:\S+ gated/,
  /^line-first gated/,
  /^hold/,
];

/** Resolves when the steps and the tool that wait for the gate have started. */
const untilBusy = (folder: string): Promise<void> =>
  until(() => inFlight.every((one) => linesOf(folder).some((line) => one.test(line))), "the steps in flight");

/** Reads everything in a file, continues it, and reads it again. Returns all answers. */
export async function continueWork(ask: Ask, folder: string): Promise<Answers> {
  const answers: Answers = {};
  let phase = "before";
  async function keep(path: string, body?: object): Promise<Answer> {
    const answer = await ask(path, body);
    answers[`${phase}: ${body ? `${path} ${JSON.stringify(body)}` : path}`] = answer;
    return answer;
  }
  const command = (workflow: string, id: string, name: string, body: object = {}) =>
    keep(pathOf(workflow, id, name), body);
  const settled = (workflow: string, id: string): Promise<void> =>
    until(async () => {
      const { status } = (await ask(pathOf(workflow, id, "state"))).body.data;
      return status === "completed" || status === "error";
    }, `the end of ${id}`);

  await untilBusy(folder);
  await readAll(keep);
  answers["before: ran"] = linesOf(folder).toSorted();

  phase = "act";
  // These are refused.
  await command("approve", "completed", "retry");
  await command("approve", "completed", "resume", { resumeData: 1 });
  await command("approve", "cancelled", "retry");
  await command("both", "both-cancelled", "resume", { options: { stepId: "date" } });
  await keep(...execute("approve", "completed"));
  await command("slow", "running", "fork");
  await keep("/events", { name: "news", data: "stored", id: "news-1" });
  await keep("/events", { name: "news", data: "other", id: "news-1" });
  // These continue.
  writeFileSync(join(folder, "mended"), "");
  await command("flaky", "failed", "fork", { options: { executionId: "new-fork-of-failed" } });
  await command("flaky", "failed", "retry");
  await command("flaky", "fork-failed", "retry");
  await command("flaky", "failed-2", "fork", { fromStep: "first", options: { executionId: "new-fork-of-all" } });
  await command("approve", "completed", "fork", { fromStep: "end", options: { executionId: "new-fork" } });
  await command("approve", "fork-completed", "fork", { fromStep: "ask", options: { executionId: "new-fork-of-fork" } });
  await command("approve", "fork-suspended", "resume", { resumeData: "for the fork" });
  await command("approve", "suspended", "resume", { resumeData: "yes" });
  await command("approve", "suspended-2", "cancel", { reason: "Late" });
  await command("both", "both", "resume", { resumeData: 1, options: { stepId: "one" } });
  await command("both", "both-cancelled", "cancel");
  await command("nested", "nested", "resume", { resumeData: "yes" });
  await command("nested", "nested-completed", "fork", { fromStep: "sub", options: { executionId: "new-fork-nested" } });
  await command("journey", "journey", "fork", { fromStep: "second", options: { executionId: "new-fork-journey" } });
  await command("journey", "journey", "resume", { resumeData: "two" });
  await command("journey", "journey-back", "resume", { resumeData: "three" });
  await command("parent", "parent", "resume", { resumeData: "yes" });
  await command("parent", "parent", "fork", { fromStep: "ask", options: { executionId: "new-fork-of-parent" } });
  await command("takes", "takes", "resume", { resumeData: "yes" });
  await settled("takes", "takes");
  await keep("/events", { name: "paid", key: "waits", data: { amount: 8 }, id: "payment-8" });
  await settled("waits", "waits");
  const triggered = await keep("/schedules/yearly/trigger", {});
  await settled("short", triggered.body.data.executionId);
  await keep(...talk("talked", "Once more"));
  const { approvalId } = (await ask("/approvals?userId=ada")).body.data.items[0];
  await keep(`/approvals/${approvalId}?userId=ada`, { approved: true });
  await command("patient", "retrying", "suspend", { reason: "Stop" });
  await command("patient", "retrying", "fork", { options: { executionId: "new-fork-retried" } });
  await command("patient", "retrying", "cancel");
  writeFileSync(join(folder, "open"), "");
  await settled("outer", "outer");
  await settled("line", "line-second");
  await settled("slow", "running");
  await settled("loop", "looping");
  await until(async () => {
    const { body } = await ask("/agents/talker/conversations/turn?userId=ada");
    return body.data.running === null;
  }, "the end of the turn");

  phase = "after";
  await readAll(keep);
  answers["after: ran"] = linesOf(folder).toSorted();
  return answers;
}

async function readAll(ask: Ask): Promise<void> {
  const { body } = await ask("/executions?include=values,access&limit=200");
  for (const { workflowId, executionId, status } of body.data.items) {
    await ask(pathOf(workflowId, executionId, "state?include=access"));
    await ask(pathOf(workflowId, executionId, "steps"));
    const loop = { loop: "each", journey: "while" }[workflowId as string];
    if (loop) await ask(pathOf(workflowId, executionId, `steps?under=${loop}`));
    // The stream of others stays open.
    if (status === "completed" || status === "error") {
      await ask(pathOf(workflowId, executionId, "stream"));
      await ask(pathOf(workflowId, executionId, "stream?after=2"));
    }
  }
  await ask("/executions?status=suspended&kind=person");
  await ask("/workflows/approve/executions");
  await ask("/workflows/approve/executions?status=error&limit=1");
  await ask("/schedules");
  await ask("/approvals?userId=ada");
  await ask("/agents/talker/conversations?userId=ada");
  for (const id of ["talked", "approval", "turn"]) await ask(`/agents/talker/conversations/${id}?userId=ada`);
  await ask("/agents/talker/usage?since=2026-11-01&until=2199-01-01&by=conversation");
  await ask("/agents/talker/usage?since=2026-11-01&until=2199-01-01&by=user");
}
