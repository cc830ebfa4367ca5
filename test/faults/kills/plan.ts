import type { Settings } from "./workload.ts";
import { paths, type WorkflowId } from "./oracle.ts";

/** One execution, and what its client does. */
export interface Plan {
  readonly workflow: WorkflowId;
  /** Its input, unlike that of any other. */
  readonly n: number;
  /** The id that the client gives it; without one the server does. */
  readonly id: string | undefined;
  readonly settings: Settings;
  /** How it is begun: answered at once, answered at its end, or with a stream. */
  readonly way: "async" | "wait" | "stream";
  /** Whether the client follows its events; otherwise it asks for the state again and again. */
  readonly reads: boolean;
  /** What the client asks for while it runs, once this step has begun. */
  readonly act: { readonly what: "suspend" | "cancel"; readonly at: string } | undefined;
  /** What becomes of it when it is suspended. */
  readonly ending: "resume" | "cancel" | "stay";
  /** Whether two clients resume it at once. */
  readonly rivals: boolean;
}

/** A small random number generator (mulberry32), so that a seed repeats the plans. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** From 0 up to 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number, both ends included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(...list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)]!;
  }
}

const quiet: Settings = { pace: 1, slow: "", slowMs: 0, fails: 0, again: 0 };
const simple = { way: "async", reads: false, act: undefined, ending: "resume", rivals: false } as const;

/** Any execution. */
export function randomPlan(random: Random, n: number): Plan {
  const workflow = random.pick<WorkflowId>("line", "line", "flaky", "fork", "fork", "ask", "ask", "panel");
  const somewhere = (): string => random.pick(...paths(workflow));
  const id = random.chance(0.85) ? `e${n}` : undefined;
  const way = random.pick("async", "async", "wait", "stream");
  const act = id !== undefined && random.chance(0.2);
  return {
    workflow,
    n,
    id,
    way,
    settings: {
      pace: random.pick(0, 2, 10, 30),
      slow: random.chance(0.5) ? somewhere() : "",
      slowMs: random.between(50, 300),
      fails: random.between(0, 3),
      again: random.between(0, 1),
    },
    reads: way === "stream" || random.chance(0.4),
    act: act ? { what: random.pick("suspend", "suspend", "cancel"), at: somewhere() } : undefined,
    ending: random.pick("resume", "resume", "resume", "resume", "cancel", "stay"),
    rivals: random.chance(0.3),
  };
}

/** A few executions that come by every point for sure. */
export function smallPlans(first: number): Plan[] {
  const plans: (Omit<Plan, "n" | "id" | "settings"> & { settings?: Partial<Settings> })[] = [
    { ...simple, workflow: "line", way: "wait" },
    { ...simple, workflow: "line", reads: true, settings: { pace: 0 } },
    {
      ...simple,
      workflow: "line",
      reads: true,
      act: { what: "suspend", at: "b" },
      settings: { slow: "b", slowMs: 60 },
    },
    { ...simple, workflow: "line", act: { what: "cancel", at: "c" }, settings: { slow: "c", slowMs: 60 } },
    { ...simple, workflow: "flaky", way: "stream", reads: true, settings: { fails: 2 } },
    { ...simple, workflow: "flaky", reads: true, settings: { fails: 3 } },
    { ...simple, workflow: "fork", reads: true },
    { ...simple, workflow: "ask", reads: true, rivals: true, settings: { again: 1 } },
    { ...simple, workflow: "ask", ending: "cancel" },
    { ...simple, workflow: "ask", ending: "stay" },
    { ...simple, workflow: "panel", way: "wait" },
  ];
  return plans.map((plan, index) => {
    const n = first + index;
    return { ...plan, n, id: `e${n}`, settings: { ...quiet, ...plan.settings } } as Plan;
  });
}
