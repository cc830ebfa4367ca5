import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { withoutCopiedStarts, type OwnSteps } from "../engine/former/copied-starts.ts";
import type { Answers } from "../engine/former/work.ts";
import type { Answer } from "../harness/former-build.ts";
import { until } from "../harness/waiting.ts";
import { query } from "./replica-process.ts";

export type Ask = (path: string, body?: object, headers?: Record<string, string>) => Promise<Answer>;

/** The roles of the executions that run when the server is killed. */
export const busy = ["running", "solo-running", "looping", "outer", "line-first", "line-second", "retrying"];
/** The lines that their steps in flight have written. */
export const inFlight = [
  "<running> gated <running>/gated",
  "<solo-running> gated <solo-running>/gated",
  "<looping> item 3",
  "<outer> start",
  "<child> gated <child>/gated",
  "<line-first> gated <line-first>/gated",
];
const ownSteps: OwnSteps = {
  "fork-suspended": ["ask", "end"],
  "fork-completed": ["end"],
  "fork-failed": ["second", "third"],
  "new-fork-of-failed": ["second", "third"],
  "new-fork-of-solo-failed": ["second", "third"],
  "new-fork-of-fork-failed": ["second", "third"],
  "new-fork-of-solo-completed": ["end"],
  "new-fork-of-fork": ["ask"],
  "new-fork-of-journey": ["second"],
};

/** Executions of all kinds. The same group can be made by each build. */
export class Group {
  /** The executions by role. */
  readonly #ids = new Map<string, { workflow: string; id: string }>();
  readonly #name: string;
  readonly #folder: string;

  constructor(name: string, folder: string) {
    this.#name = name;
    this.#folder = folder;
  }

  /** Begins the executions of the group. Those with `solo` in their role get no id. */
  async begin(ask: Ask): Promise<void> {
    const roles: Record<string, readonly string[]> = {
      short: ["solo-ended"],
      approve: ["suspended", "completed", "cancelled", "solo-suspended", "solo-completed"],
      both: ["both"],
      flaky: ["failed", "solo-failed"],
      journey: ["journey", "solo-journey"],
      nested: ["nested"],
      parent: ["parent"],
      waits: ["waits"],
      slow: ["running", "solo-running"],
      loop: ["looping"],
      outer: ["outer"],
      line: ["line-first", "line-second"],
      patient: ["retrying"],
    };
    const all = Object.entries(roles).flatMap(([workflow, own]) => own.map((role) => ({ workflow, role })));
    for (const { workflow, role } of all) {
      const id = `${this.#name}-${role}`;
      const begin = (more: object, headers = {}) =>
        ask(`/workflows/${workflow}/execute`, { input: { of: id }, ...more }, headers);
      // The former build began an execution without a register if its caller named no id and waited.
      if (!role.startsWith("solo")) await begin({ options: { executionId: id } }, { prefer: "respond-async" });
      else if (busy.includes(role)) begin({}).catch(() => {});
      else await begin({});
      this.#ids.set(role, { workflow, id: role.startsWith("solo") ? await this.#find(ask, workflow, id) : id });
      // A list is in the order of the starts.
      if (role === "outer") this.#ids.set("child", { workflow: "gate", id: await this.#find(ask, "gate", id) });
    }
    for (const { role } of all) if (!busy.includes(role)) await this.#settled(ask, role);
    for (const role of ["journey", "solo-journey"]) {
      await ask("/events", { name: "go", data: "went", id: `${this.#name}-go` });
      await until(async () => (await this.#state(ask, role)).suspension?.kind === "person", "the event");
      await ask(this.#path(role, "resume"), { resumeData: "one" });
    }
    for (const role of ["completed", "solo-completed"]) await ask(this.#path(role, "resume"), { resumeData: "yes" });
    await ask(this.#path("cancelled", "cancel"), { reason: "No longer needed" });
    await this.#fork(ask, "completed", "fork-suspended", "ask");
    await this.#fork(ask, "solo-completed", "fork-completed", "end");
    await this.#fork(ask, "failed", "fork-failed");
    const isAt = async (role: string, path: string, status: string): Promise<boolean> => {
      const { items } = (await ask(this.#path(role, "steps"))).body.data;
      return items.some((step: any) => step.path === path && step.status === status);
    };
    for (const role of ["running", "solo-running"]) await until(() => isAt(role, "done", "success"), `${role}: done`);
    await until(() => isAt("retrying", "retried", "waiting"), "a failed attempt");
    await until(() => inFlight.every((line) => this.ran().includes(line)), "the steps in flight");
  }

  /** Continues the executions of the group. Returns the answers. */
  async continue(ask: Ask): Promise<Answers> {
    const answers: Answers = {};
    const keep = async (role: string, command: string, body: object): Promise<void> => {
      answers[`${role} ${command} ${JSON.stringify(body)}`] = await ask(this.#path(role, command), body);
    };
    const fork = async (role: string, as: string, fromStep?: string): Promise<void> => {
      answers[as] = await this.#fork(ask, role, as, fromStep);
    };
    for (const role of ["completed", "solo-ended", "cancelled"]) {
      await keep(role, "retry", {});
      await keep(role, "resume", { resumeData: 1 });
      await keep(role, "cancel", {});
    }
    await keep("running", "fork", {});
    await keep("solo-running", "fork", {});
    const again = { input: {}, options: { executionId: this.#ids.get("solo-ended")!.id } };
    answers["again"] = await ask("/workflows/short/execute", again);
    writeFileSync(join(this.#folder, "mended"), "");
    for (const role of ["failed", "solo-failed", "fork-failed"]) {
      await fork(role, `new-fork-of-${role}`);
      await keep(role, "retry", {});
    }
    await fork("solo-ended", "new-fork-of-solo-ended", "only");
    await fork("solo-completed", "new-fork-of-solo-completed", "end");
    await fork("fork-completed", "new-fork-of-fork", "ask");
    await fork("journey", "new-fork-of-journey", "second");
    for (const role of ["suspended", "solo-suspended", "fork-suspended", "journey", "nested", "parent"])
      await keep(role, "resume", { resumeData: "two" });
    await keep("solo-journey", "resume", { resumeData: "back", options: { stepId: "first" } });
    await keep("both", "resume", { resumeData: 1, options: { stepId: "one" } });
    await keep("new-fork-of-fork", "cancel", { reason: "Late" });
    await ask("/events", { name: "paid", key: `${this.#name}-waits`, data: { amount: 7 } });
    await keep("retrying", "suspend", { reason: "Stop" });
    await fork("retrying", "new-fork-retried");
    await keep("retrying", "cancel", {});
    for (const role of busy) writeFileSync(join(this.#folder, `open-${this.#name}-${role}`), "");
    const isEnded = async (role: string) => /completed|error/.test((await this.#state(ask, role)).status);
    for (const role of ["waits", ...busy]) await until(() => isEnded(role), `the end of ${role}`);
    return answers;
  }

  /** Reads everything about the executions of the group. */
  async read(ask: Ask): Promise<Answers> {
    const answers: Answers = {};
    const keep = async (role: string, rest: string): Promise<void> => {
      const answer = await ask(this.#path(role, rest));
      answers[`${role} ${rest}`] = answer;
      // The last event of a stream has the time of the request.
      if (rest === "stream") delete answer.body.at(-1).timestamp;
    };
    const list = await ask("/executions?include=values,access&limit=200");
    const own = new Set([...this.#ids.values()].map(({ id }) => id));
    answers["list"] = list.body.data.items.filter(({ executionId }: any) => own.has(executionId));
    const readOne = async (role: string): Promise<void> => {
      const { status } = await this.#state(ask, role);
      await keep(role, "state?include=access");
      await keep(role, "steps");
      // The stream of others stays open.
      if (status === "completed" || status === "error") await keep(role, "stream");
    };
    await Promise.all([...this.#ids.keys()].map(readOne));
    await keep("journey", "steps?under=while");
    return withoutCopiedStarts(answers, ownSteps, (request) => /^(\S+) steps/.exec(request)?.[1] ?? "");
  }

  /** Replaces what two groups cannot have in common: ids and times. */
  toRoles(answers: Answers): Answers {
    let text = JSON.stringify(answers);
    for (const [role, { id }] of this.#ids)
      text = text.replaceAll(`"${id}"`, `"<${role}>"`).replaceAll(id, `<${role}>`);
    text = text.replaceAll(`${this.#name}-`, "").replace(/child:[\w-]+/g, "<child>");
    return JSON.parse(text.replace(/20\d\d-\d\d-\d\dT[\d:.]+Z/g, "<time>")) as Answers;
  }

  /** Resolves to the roles of the executions that have no register. */
  async withoutRegister(service: string): Promise<string[]> {
    const rows = await query<{ key: string }>(
      `select distinct service_key as key from state where service_name = '${service}'`,
    );
    const keys = new Set(rows.map(({ key }) => key));
    return [...this.#ids].filter(([, { id }]) => !keys.has(id)).map(([role]) => role);
  }
  /** Resolves to the ids of the invocations that drive executions of the group, by role. */
  async drives(service: string): Promise<Record<string, string>> {
    const rows = await query<{ id: string; key: string }>(
      `select id, target_service_key as key from sys_invocation where target_service_name = '${service}.drive'
        and target_handler_name = 'run' and status <> 'completed'`,
    );
    const found = [...this.#ids].flatMap(([role, { id }]) => {
      const row = rows.find(({ key }) => key === id);
      return row ? [[role, row.id]] : [];
    });
    return Object.fromEntries(found) as Record<string, string>;
  }
  /** The lines of the steps that have run in the group, with roles. */
  ran(): string[] {
    const lines = readFileSync(join(this.#folder, "ran"), "utf8").split("\n");
    const own = [...this.#ids].flatMap(([role, { id }]) =>
      lines.filter((line) => line.startsWith(`${id} `)).map((line) => line.replaceAll(id, `<${role}>`)),
    );
    return own.toSorted();
  }
  #path(role: string, rest: string): string {
    const { workflow, id } = this.#ids.get(role)!;
    return `/workflows/${workflow}/executions/${id}/${rest}`;
  }
  /** Resolves to the id of the execution with an input. */
  async #find(ask: Ask, workflow: string, of: string): Promise<string> {
    let found: string | undefined;
    await until(async () => {
      const { items } = (await ask(`/executions?workflowId=${workflow}&include=values`)).body.data;
      found = items.find(({ input }: any) => input.of === of)?.executionId;
      return found !== undefined;
    }, of);
    return found!;
  }
  async #state(ask: Ask, role: string): Promise<any> {
    return (await ask(this.#path(role, "state"))).body.data;
  }
  async #settled(ask: Ask, role: string): Promise<void> {
    await until(async () => (await this.#state(ask, role)).status !== "running", role);
  }
  async #fork(ask: Ask, role: string, as: string, fromStep?: string): Promise<Answer> {
    const { workflow } = this.#ids.get(role)!;
    const id = `${this.#name}-${as}`;
    this.#ids.set(as, { workflow, id });
    return ask(this.#path(role, "fork"), { ...(fromStep && { fromStep }), options: { executionId: id } });
  }
}
