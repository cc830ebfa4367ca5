// A server to attack. Every route is open, so that anonymous callers reach each handler as well. Every payment is a line of
// the file `log`, with its idempotency key. Orders of the test are the server's own code.
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { join } from "node:path";
import * as v from "valibot";
import { defineAgent, defineSchedule, defineTool, defineWorkflow, embedded, jwtAuth } from "../../src/index.ts";
import { workflowTool, type Authorize, type Config, type WorkflowDefinition } from "../../src/index.ts";
import { loadSdk } from "../../src/agents/sdk.ts";
import { scriptedModel, type ScriptedStep } from "../../src/models.ts";
import { createLog, type CreateHosted } from "../harness/hosted.ts";
import { release2Authorize } from "../fixtures/release-2-authorize.ts";

await loadSdk();

/** The rule of the config: none, `ownership`, the `authorize` of the template support-desk, or one by teams. */
export type Rule = "none" | "ownership" | "desk" | "teams";
export interface AttackOptions {
  readonly rule: Rule;
  /** Adds a workflow with its own `authorize`: managers read and fork it, and may not start it. */
  readonly hasLedger?: boolean;
  readonly hasSchedules?: boolean;
  readonly storedEvents?: number;
}
export interface Effect {
  readonly what: "payment" | "beat";
  readonly key: string;
}

export const secret = "a secret of the attacks, which is long enough";
/** Names of teams that `teams` refuses for now. */
const revoked = new Set<unknown>();

/** Decides by two claims of the caller, and changes its mind by the order `revoke`. */
const teamsAuthorize: Authorize = async ({ action, user, execution }) => {
  if (action !== "execution.read" || !user) return false;
  const team = execution?.context["team"];
  if (user["role"] === "manager") await nextTurn();
  return mayReadTeam(user, team, revoked);
};
export const mayReadTeam = (user: object, team: unknown, without: ReadonlySet<unknown>): boolean => {
  const { role, team: own } = user as { role?: unknown; team?: unknown };
  return team === "all" || (!without.has(team) && (role === "manager" || (own !== undefined && own === team)));
};

const create: CreateHosted = ({ folder, ...options }: AttackOptions & { folder: string }) => {
  const write = createLog(folder);
  const tell = (effect: Effect): void => write(JSON.stringify(effect));
  const prompts: unknown[] = [];
  const held = new Map<string, () => void>();
  const input = v.object({ note: v.optional(v.string()), broken: v.optional(v.boolean()) });

  const pay = ({ data, idempotencyKey }: { data: v.InferOutput<typeof input>; idempotencyKey: string }) => {
    tell({ what: "payment", key: idempotencyKey });
    return data;
  };
  const receipt = ({ data }: { data: v.InferOutput<typeof input> }) => {
    if (data.broken) throw new Error("The printer has no paper");
    return { note: data.note };
  };
  const payout = defineWorkflow({ id: "payout", input })
    .andThen({
      id: "approve",
      execute: ({ data, resumeData, suspend }) => (resumeData ? data : suspend(`Pay for ${data.note}?`)),
    })
    .andThen({ id: "pay", execute: pay })
    .andThen({ id: "receipt", execute: receipt });
  const ledger = defineWorkflow({
    id: "ledger",
    input,
    authorize: ({ action, user }) => /^execution\.(read|fork)$/.test(action) && user?.["role"] === "manager",
  })
    .andThen({ id: "pay", execute: pay })
    .andThen({ id: "receipt", execute: receipt });
  const payday = defineWorkflow({ id: "payday" }).andThen({ id: "pay", execute: pay as never });
  const beat = defineWorkflow({ id: "beat" }).andThen({ id: "tell", execute: () => tell({ what: "beat", key: "" }) });

  const keyed = v.object({ key: v.string() });
  const paid = { event: "paid", key: ({ input: { key } }: { input: { key: string } }) => key };
  const wait = defineWorkflow({ id: "wait", input: keyed }).andWaitFor({ id: "paid", ...paid });
  const forCode = defineWorkflow({ id: "wait-for-code", input: keyed }).andWaitFor({
    id: "paid",
    ...paid,
    from: "code",
  });
  const twice = defineWorkflow({ id: "wait-twice", input: keyed })
    .andWaitFor({ id: "first", ...paid })
    .andWaitFor({ id: "second", ...paid })
    .andThen({ id: "both", execute: ({ data, getStepData }) => [getStepData("first"), data] });
  const notify = defineWorkflow({ id: "notify", input: keyed }).andThen({
    id: "tell",
    execute: ({ data, runtime, idempotencyKey }) =>
      runtime.send({ name: "paid", key: data.key, data: "notified", id: idempotencyKey }),
  });
  const job = (id: string) =>
    defineWorkflow({ id, input: v.object({ note: v.string() }) }).andThen({ id: "do", execute: ({ data }) => data });

  /** Does as the last message of the user says. */
  const answer: ScriptedStep = async ({ prompt }) => {
    prompts.push(prompt.filter(({ role }) => role !== "system"));
    const own = prompt.slice(prompt.findLastIndex(({ role }) => role === "user"));
    const said = JSON.stringify(own[0]?.content);
    const [, verb, name = ""] = /(pay|payout|hold) (\w+)/.exec(said) ?? [];
    if (verb === undefined || own.length > 1) return `Heard: ${said}`;
    if (verb !== "hold") return { toolCalls: [{ toolName: verb, input: { note: name } }] };
    await new Promise<void>((resolve) => held.set(name, resolve));
    return `Held: ${said}`;
  };
  const payTool = defineTool({
    description: "Pays",
    inputSchema: v.object({ note: v.string() }),
    needsApproval: true,
    execute({ note }, { idempotencyKey }) {
      tell({ what: "payment", key: idempotencyKey });
      return `paid for ${note}`;
    },
  });
  const desk = defineAgent({
    id: "desk",
    instructions: "Help.",
    model: scriptedModel(Array.from({ length: 20_000 }, () => answer)),
    tools: { pay: payTool, payout: workflowTool(payout, { description: "Pays", anonymous: true }) },
    maxRetries: 0,
  });

  const workflows: WorkflowDefinition[] = [payout, payday, beat, notify, job("job"), job("task"), wait, forCode, twice];
  const { rule, hasLedger = false, hasSchedules = false, storedEvents } = options;
  const config: Config = {
    backend: embedded({ path: join(folder, "data.db") }),
    console: true, // it keeps the model calls of turns
    auth: jwtAuth({
      secret,
      publicRoutes: ["ALL /*"],
      ownership: rule === "ownership",
      mapUser: ({ iat: _iat, exp: _exp, ...user }) => user,
    }),
    ...(rule === "desk" && { authorize: release2Authorize }),
    ...(rule === "teams" && { authorize: teamsAuthorize }),
    agents: [desk],
    workflows: hasLedger ? [...workflows, ledger] : workflows,
    schedules: hasSchedules
      ? [
          defineSchedule({ id: "yearly", workflow: payday, every: "365d" }),
          defineSchedule({ id: "beating", workflow: beat, every: "1s" }),
        ]
      : [],
    server: { limits: { drainNoticeMs: 0, ...(storedEvents && { storedEvents }) } },
  };

  return {
    config,
    orders: {
      /** Runs a workflow until it ends or suspends, for a user or for the server itself. */
      execute: ({ workflow, input: given, ...how }, { runtime }) => runtime.execute(workflow as string, given, how),
      async resume({ id, data }, { runtime }) {
        const handle = await runtime.executions.get(id);
        await handle.resume(data);
        return handle.result();
      },
      /** Waits until an execution has ended. */
      async result(id: string, { runtime }) {
        const handle = await runtime.executions.get(id);
        for (;;) {
          const outcome = await handle.result();
          if (outcome.status !== "suspended") return outcome;
          await sleep(5);
        }
      },
      /** Sends an event. Returns its id, or the status of the error. */
      send: (event, { runtime }) => runtime.send(event).catch(({ status, message }) => ({ status, message })),
      /** Lists all executions. */
      async executions(_, { runtime }) {
        const all: object[] = [];
        for (let cursor: string | undefined, isLast = false; !isLast;) {
          const page = await runtime.executions.list({ limit: 200, ...(cursor && { cursor }) });
          all.push(...page.items);
          cursor = page.nextCursor ?? undefined;
          isLast = cursor === undefined;
        }
        return all;
      },
      revoke(teams: string[]) {
        revoked.clear();
        for (const team of teams) revoked.add(team);
      },
      /** Returns the prompts that the model has got since the last time. */
      prompts: () => prompts.splice(0),
      isHeld: (name: string) => held.has(name),
      release: (name: string) => held.get(name)?.(),
    },
  };
};
export default create;
