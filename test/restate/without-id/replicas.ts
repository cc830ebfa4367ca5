import { join } from "node:path";
import { expect } from "vitest";
import { parseEvents } from "../../harness/client.ts";
import { until } from "../../harness/waiting.ts";
import { ReplicaGroup, ReplicaProcess, type Answer, type GroupOptions } from "../replica-process.ts";

export type { Answer };

/** A start of a step, in the order in which they happened. */
export interface RanStep {
  readonly tag: string;
  readonly id: string;
  readonly step: string;
}

/** A replica of `tagged-steps-app.ts`. */
export class Replica extends ReplicaProcess {
  /** Starts an execution without an id, and waits for the answer. */
  execute(workflow: string, tag: string, more: object = {}, options: object = {}): Promise<Answer> {
    return this.request(`/workflows/${workflow}/execute`, { input: { tag, ...more }, options });
  }

  /** The state of an execution. Undefined: it is not found. */
  async state(workflow: string, id: string): Promise<any> {
    const answer = await this.request(`${pathOf(workflow, id)}/state`);
    return answer.status === 404 ? undefined : toBody(answer).data;
  }

  /** The events of an execution up to its end or suspension. The last one has no time: it is that of the answer. */
  async events(workflow: string, id: string): Promise<any[]> {
    const events = parseEvents(toBody(await this.request(`${pathOf(workflow, id)}/stream`)));
    if (events.at(-1)?.type === "workflow-result") delete events.at(-1).timestamp;
    return events;
  }

  /** The steps that have begun, with their statuses and times. */
  async steps(workflow: string, id: string): Promise<object[]> {
    const { items } = toBody(await this.request(`${pathOf(workflow, id)}/steps`)).data;
    return items.map(({ path, status, startAt, endAt }: any) => ({ path, status, startAt, endAt }));
  }

  /** Everything that this replica tells about an execution that does not run. */
  async readAll(workflow: string, id: string) {
    const [state, events, list] = await Promise.all([
      this.state(workflow, id),
      this.events(workflow, id),
      this.list(workflow),
    ]);
    return { state, events, listed: list.filter((one) => one.executionId === id) };
  }

  /** All executions of a workflow, newest first. */
  async list(workflow: string, search: Record<string, string> = {}): Promise<any[]> {
    const items: any[] = [];
    let cursor: string | null = null;
    do {
      const query = new URLSearchParams({ limit: "200", ...search, ...(cursor !== null && { cursor }) });
      const { data } = toBody(await this.request(`/workflows/${workflow}/executions?${query}`));
      items.push(...data.items);
      cursor = data.nextCursor;
    } while (cursor !== null);
    return items;
  }

  /** Resolves to the only entry of a list with this tag, once `isAsExpected` accepts its status. */
  async listed(workflow: string, tag: string, isAsExpected: (status: string) => boolean = () => true): Promise<any> {
    let found: any[] = [];
    const isListed = async (): Promise<boolean> => {
      found = (await this.list(workflow)).filter(({ input }) => input.tag === tag);
      return found.length > 0 && found.every(({ status }) => isAsExpected(status));
    };
    await until(isListed, () => `${tag} in the list, not ${JSON.stringify(found)}`);
    if (found.length > 1) throw new Error(`${tag} is listed more than once: ${JSON.stringify(found)}`);
    return found[0];
  }
}

/** The body of an answer with the status 200. */
function toBody({ status, body }: Answer): any {
  if (status !== 200) throw new Error(`expected 200, found ${status}: ${JSON.stringify(body)}`);
  return body;
}

export const pathOf = (workflow: string, id: string): string => `/workflows/${workflow}/executions/${id}`;
export const isOver = (status: string): boolean => status !== "running";

/** Every event has come once, and the last one is the result. */
export function checkEvents(events: readonly any[], status: string): void {
  const seqs = events.flatMap(({ seq }) => seq ?? []);
  expect(seqs).toEqual(seqs.map((_, index) => index + 1));
  expect(events[0]).toMatchObject({ type: "workflow-start" });
  expect(events.at(-1)).toMatchObject({ type: "workflow-result", status });
  expect(seqs).toHaveLength(events.length - 1);
}

/** Replicas of `tagged-steps-app.ts`. */
export class Replicas extends ReplicaGroup<Replica> {
  static start({ retention, ...options }: GroupOptions & { readonly retention?: string } = {}): Promise<Replicas> {
    const module = join(import.meta.dirname, "tagged-steps-app.ts");
    return new Replicas((place) => new Replica(module, place), options, { retention }).open();
  }

  /** Asks each replica. */
  onAll<T>(ask: (replica: Replica) => Promise<T>): Promise<T[]> {
    return Promise.all(this.all.map(ask));
  }
  /** Lets the executions with this tag pass. */
  openGate(tag: string): void {
    this.touch(`open-${tag}`);
  }
  ran(tag?: string): RanStep[] {
    const steps = this.lines("log").map((line) => line.split(" ") as [string, string, string]);
    const all = steps.map(([one, id, step]) => ({ tag: one, id, step }));
    return tag === undefined ? all : all.filter((one) => one.tag === tag);
  }
  /** The steps of an execution that have started, in their order. */
  stepsOf(tag: string): string[] {
    return this.ran(tag).map(({ step }) => step);
  }
  /** Resolves to the id of an execution once a step of it has started. */
  async reached(tag: string, step: string): Promise<string> {
    await until(() => this.stepsOf(tag).includes(step), `${step} of ${tag}`);
    return this.ran(tag)[0]!.id;
  }

  /** Resolves to the rows that Restate has of the services of these replicas. */
  rows<T>(columns: string, table: "state" | "sys_invocation", where: string): Promise<T[]> {
    const column = table === "state" ? "service_name" : "target_service_name";
    return this.query(`select ${columns} from ${table} where ${column} like '${this.name}%' and ${where}`);
  }
  /** Resolves when Restate has nothing to do, except at a later time. */
  async idle(): Promise<void> {
    let busy: unknown[] = [];
    const isIdle = async (): Promise<boolean> => {
      busy = await this.rows("target, status", "sys_invocation", "status not in ('scheduled', 'completed')");
      return busy.length === 0;
    };
    await until(isIdle, () => `Restate to be idle: ${JSON.stringify(busy.slice(0, 5))}`);
  }
}

let count = 0;
/** A tag that no other execution of the file has. */
export const newTag = (): string => `t${++count}`;
/** The same answer of each of three replicas. */
export const repeated = <T>(value: T): T[] => [value, value, value];
