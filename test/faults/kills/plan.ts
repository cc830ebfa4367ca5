import type { Posting } from "./letters.ts";
import { farMs } from "./waits.ts";
import type { Settings } from "./workload.ts";
import { paths, stops, topSteps, type Asked, type WorkflowId } from "./oracle.ts";

/** One execution, and what its client does. */
export interface Plan extends Asked {
  /** The id that the client gives it; without one the server does. */
  readonly id: string | undefined;
  /** How it is begun: answered at once, answered at its end, or with a stream. */
  readonly way: "async" | "wait" | "stream";
  /** Whether the client follows its events; otherwise it asks for the state again and again. */
  readonly reads: boolean;
  /** What the client asks for while it runs, once this step has begun; `waits`: once it waits for its children. */
  readonly act: { readonly what: "suspend" | "cancel"; readonly at: string } | undefined;
  /** What becomes of it when it is suspended. */
  readonly ending: "resume" | "cancel" | "stay";
  /** Whether two clients resume it, or retry it, at once. */
  readonly rivals: boolean;
  /** When the letters are sent that it waits for. */
  readonly posting: Posting;
  /** The fork that the client makes of it, once. */
  readonly fork: ForkPlan | undefined;
}
interface ForkPlan {
  /** What has become of the original. */
  readonly of: "failed" | "suspended" | "completed";
  /** A step that has begun, or undefined: the default. */
  readonly fromStep: string | undefined;
  /** `input`: with another input, and an id of the server's. Otherwise it has the client's id. */
  readonly by: "id" | "input";
  readonly way: "async" | "wait";
  /** How often the fork fails before it is mended. */
  readonly retries: number;
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

const quiet: Settings = { pace: 1, slow: "", slowMs: 0, fails: 0, again: 0, broken: false, deadlineMs: farMs };
/** An execution that is started, waited for and nothing else. */
export const simple = {
  way: "async",
  reads: false,
  act: undefined,
  ending: "resume",
  rivals: false,
  posting: "after",
  retries: 0,
  origin: undefined,
  fork: undefined,
} as const;

/** A deadline that passes. */
const shortMs = 60;
const post = { ...simple, workflow: "post", settings: { deadlineMs: shortMs } } as const;
/** Executions that wait for times and events. */
const waitingPlans = [
  { ...post, posting: "before", settings: { deadlineMs: shortMs, fails: 1 } },
  { ...post, posting: "at once", reads: true, rivals: true },
  { ...post, posting: "after", way: "wait", settings: { deadlineMs: farMs, fails: 1 } },
] as const;
/** As many as there are at the most. */
export const maxSmall = 18 + waitingPlans.length;

/** Any execution. `repairs`: also those that are retried and forked. */
export function randomPlan(random: Random, n: number, repairs = false): Plan {
  const plain = ["line", "line", "flaky", "fork", "fork", "tour", "maze", "post", "ask", "ask", "panel"] as const;
  const workflow = random.pick<WorkflowId>(
    ...plain,
    ...(repairs ? (["mend", "mend", "crew", "crew", "family", "family"] as const) : []),
  );
  const isParent = workflow === "family";
  const somewhere = (more: readonly string[]): string => random.pick(...paths(workflow), ...(isParent ? more : []));
  const id = random.chance(0.85) ? `e${n}` : undefined;
  const way = random.pick("async", "async", "wait", "stream");
  const broken = workflow === "mend" || workflow === "crew" || (isParent && random.chance(0.4));
  const fork = repairs && random.chance(0.4) ? randomFork(random, workflow, broken) : undefined;
  // An original must not change while it is forked.
  const act = !fork && id !== undefined && random.chance(isParent ? 0.5 : 0.2);
  const ending = random.pick("resume", "resume", "resume", "resume", "cancel", "stay");
  return {
    workflow,
    n,
    id,
    way,
    settings: {
      // Two failures of one execution are not at the same millisecond.
      pace: Math.max(broken ? 2 : 0, random.pick(0, 2, 10, 30)),
      slow: random.chance(0.5) ? somewhere(paths("kid")) : "",
      slowMs: random.between(50, 300),
      fails: random.between(0, 3),
      again: random.between(0, 1),
      broken,
      deadlineMs: ending === "resume" && !fork && random.chance(0.6) ? shortMs : farMs,
    },
    retries: broken ? random.pick(1, 1, 2) : 0,
    origin: undefined,
    fork,
    reads: way === "stream" || random.chance(0.4),
    act: act ? { what: random.pick("suspend", "suspend", "cancel"), at: somewhere(["waits", "waits"]) } : undefined,
    ending,
    rivals: random.chance(0.3),
    posting: random.pick("before", "at once", "after"),
  };
}

function randomFork(random: Random, workflow: WorkflowId, isBroken: boolean): ForkPlan {
  const { failed, suspended } = stops[workflow];
  const of = random.pick<ForkPlan["of"]>(
    "completed",
    ...(isBroken ? (["failed", "failed"] as const) : []),
    ...(suspended < 0 ? [] : (["suspended", "suspended"] as const)),
  );
  const begun = topSteps(workflow).slice(
    0,
    of === "completed" ? undefined : (of === "failed" ? failed : suspended) + 1,
  );
  const by = random.pick("id", "id", "id", "input");
  return {
    of,
    by,
    fromStep: by === "id" && random.chance(0.6) ? random.pick(...begun) : undefined,
    way: random.pick("async", "wait"),
    // Without the client's id it cannot be mended before it has begun.
    retries: !isBroken ? 0 : by === "id" ? random.between(0, 1) : 1,
  };
}

/** An execution that waits for its children for a while. */
export function patientPlan(n: number): Plan {
  return { ...simple, workflow: "family", n, id: `e${n}`, settings: { ...quiet, childPace: 300 } };
}

/** A few executions that come by every point for sure. `waits`: also by those of waits. */
export function smallPlans(first: number, waits: boolean): Plan[] {
  const fork = { fromStep: undefined, by: "id", way: "async", retries: 0 } as const;
  const broken = { ...simple, retries: 1, settings: { broken: true } };
  const plans: (Omit<Plan, "n" | "id" | "settings"> & { settings?: Partial<Settings> })[] = [
    { ...simple, workflow: "line", way: "wait", fork: { ...fork, of: "completed", fromStep: "b" } },
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
    { ...simple, workflow: "tour", reads: true },
    { ...simple, workflow: "maze", reads: true },
    { ...simple, workflow: "ask", reads: true, rivals: true, settings: { again: 1 } },
    { ...simple, workflow: "ask", ending: "cancel" },
    { ...simple, workflow: "ask", ending: "stay", fork: { ...fork, of: "suspended" } },
    { ...simple, workflow: "panel", way: "wait" },
    { ...broken, workflow: "mend", fork: { ...fork, of: "failed", way: "wait" } },
    ...(waits ? waitingPlans : []),
    { ...broken, workflow: "crew", reads: true, rivals: true, settings: { broken: true, slow: "m", slowMs: 20 } },
    { ...simple, workflow: "family", reads: true },
    { ...simple, workflow: "family", act: { what: "cancel", at: "waits" }, settings: { slow: "y", slowMs: farMs } },
    { ...broken, workflow: "family", fork: { ...fork, of: "completed", fromStep: "kids" } },
  ];
  return plans.map((plan, index) => {
    const n = first + index;
    return { ...plan, n, id: `e${n}`, settings: { ...quiet, ...plan.settings } } as Plan;
  });
}
