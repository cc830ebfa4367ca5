import { join } from "node:path";
import { until } from "../harness/waiting.ts";
import { ReplicaGroup, ReplicaProcess, type GroupOptions } from "./replica-process.ts";

/** A step that has started on a replica, and when. */
export interface StartedStep {
  readonly id: string;
  readonly step: string;
  readonly at: number;
}

/** A replica of `steps-app.ts`. */
export class Replica extends ReplicaProcess {
  readonly steps: StartedStep[] = [];

  protected override onReport(step: StartedStep): void {
    this.steps.push(step);
  }

  /** Starts an execution and waits for its end. Resolves to the HTTP status and the status of the execution. */
  async execute(workflow: string, executionId: string): Promise<string> {
    const { status, body } = await this.request(`/workflows/${workflow}/execute`, {
      input: {},
      options: { executionId },
    });
    return `${status} ${body.data?.status}`;
  }

  /** Starts an execution without waiting for its end. Resolves to the HTTP status. */
  async begin(workflow: string, executionId: string, input: object = {}): Promise<number> {
    const body = { input, options: { executionId } };
    return (await this.request(`/workflows/${workflow}/execute`, body, { prefer: "respond-async" })).status;
  }

  async state(workflow: string, id: string): Promise<{ status: string } | undefined> {
    return (await this.request(`/workflows/${workflow}/executions/${id}/state`)).body.data;
  }
}

/** Asks again if a busy machine refuses the call, or its replica is gone. */
export async function persist<T>(ask: () => Promise<T | undefined>): Promise<T> {
  let answer: T | undefined;
  await until(async () => (answer = await ask().catch(() => undefined)) !== undefined, "an answer");
  return answer!;
}

/** Calls for each id, at most 20 at a time. */
export async function forAll(
  ids: readonly string[],
  act: (id: string, index: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    for (let index = next++; index < ids.length; index = next++) await act(ids[index]!, index);
  };
  await Promise.all(Array.from({ length: 20 }, work));
}

export interface ReplicasOptions extends GroupOptions {
  /** The time that each step of the workflow `slow` takes. */
  readonly stepMs?: number;
  /** The interval of the schedule `each`. @default there is no schedule */
  readonly every?: string;
}

/** Replicas of `steps-app.ts`. */
export class Replicas extends ReplicaGroup<Replica> {
  static start({ stepMs = 100, every, ...options }: ReplicasOptions = {}): Promise<Replicas> {
    const module = join(import.meta.dirname, "steps-app.ts");
    return new Replicas((place) => new Replica(module, place), options, { stepMs, every }).open();
  }

  /** Lets the executions of the workflow `gated` continue. */
  openGate(): void {
    this.touch("gate");
  }
}
