/**
 * What SPEC, DESIGN (sections 3 and 5) and NEXT (sections 2 to 4) allow an execution to do, as a pure state machine. Written
 * from them, not from the engine: it knows no journal, no drive and no number of a transition.
 */
export interface Shape {
  /** Top-level steps in order, each with the steps whose code runs; a plain step is its own only leaf. */
  readonly tops: readonly { readonly id: string; readonly leaves: readonly string[] }[];
  /** What each step takes as `resumeData`; absent means anything. */
  readonly accepts: Readonly<Record<string, (data: unknown) => boolean>>;
  /** The leaves without code: they wait. */
  readonly waits?: Readonly<Record<string, Wait>>;
}
interface Wait {
  readonly kind: "timer" | "event";
  /** After this time the wait is over. */
  readonly ms?: number;
}
/** Time passes in steps of this. Where it cannot be moved, no wait ends by it. */
export const tickMs: number = process.env["TEST_BACKEND"] === "restate" ? 3_600_000 : 10_000;
/** The time. NaN: a wait ends at a time that nobody knows before it was seen. */
export const time: { now: number } = { now: Number.NaN };
export const eventName = "mail";

const has = (key: string, type: string) => (data: any) =>
  typeof data === "object" && data !== null && typeof data[key] === type;

const shapes = {
  line: {
    tops: ["a", "b", "c", "d"].map((id) => ({ id, leaves: [id] })),
    // `a` and `d` have no schema of their own: the workflow's.
    accepts: { a: has("note", "string"), b: has("n", "number"), c: has("ok", "boolean"), d: has("note", "string") },
  },
  fork: {
    tops: [
      { id: "x", leaves: ["x"] },
      { id: "all", leaves: ["p", "q"] },
      { id: "z", leaves: ["z"] },
    ],
    accepts: { p: has("ok", "boolean") },
  },
  calm: {
    tops: ["a", "nap", "mail", "z"].map((id) => ({ id, leaves: [id] })),
    accepts: {},
    waits: { nap: { kind: "timer", ms: tickMs }, mail: { kind: "event", ms: 3 * tickMs } },
  },
  busy: {
    tops: [
      { id: "x", leaves: ["x"] },
      { id: "all", leaves: ["p", "nap", "mail"] },
      { id: "z", leaves: ["z"] },
    ],
    accepts: { p: has("ok", "boolean") },
    waits: { nap: { kind: "timer", ms: tickMs }, mail: { kind: "event" } },
  },
} satisfies Record<string, Shape>;
export type WorkflowId = keyof typeof shapes;
export const shapeOf = (workflow: WorkflowId): Shape => shapes[workflow];
export const stepIds = (workflow: WorkflowId): string[] => [
  ...new Set(shapeOf(workflow).tops.flatMap(({ id, leaves }) => [id, ...leaves])),
];

/** How the test lets a step's code end. */
export type Action =
  | { readonly type: "return"; readonly n: number }
  | {
      readonly type: "suspend";
      readonly reason?: string | undefined;
      readonly data?: unknown;
      readonly isTimed?: boolean | undefined;
    }
  | { readonly type: "throw"; readonly shown: boolean };

type Leaf =
  | { is: "due"; resumeData?: unknown; timedOut?: boolean } // runs as soon as the execution goes on
  | { is: "running"; resumeData?: unknown; timedOut?: boolean }
  | { is: "parked"; reason: string; data?: unknown; due?: number }
  | { is: "waiting"; due?: number }
  | { is: "done"; value: unknown }
  | { is: "failed"; resumeData?: unknown; timedOut?: boolean };

/** One run of a step's code, as that code sees it. */
interface ExpectedRun {
  step: string;
  /** `@1` … after going back. */
  suffix: string;
  data: unknown;
  /** Not said for the branches of a step that somebody went back to. */
  resumeData: unknown;
  anyResumeData: boolean;
  /** Whether the deadline of its suspension has passed. */
  timedOut: boolean;
  /** What `getStepData` says of the steps before and after. */
  stepData: Record<string, unknown>;
}

interface Suspension {
  by: "request" | "step";
  kind: "request" | Pending["kind"];
  due?: number;
  reason: string;
  stepIndex: number;
  stepId: string;
  data?: unknown;
  pending?: Pending[];
}
/** A branch that waits. */
interface Pending {
  stepIndex: number;
  stepId: string;
  kind: "person" | "timer" | "event";
  reason: string;
  data?: unknown;
  due?: number;
}

export interface Model {
  readonly id: string;
  readonly workflow: WorkflowId;
  readonly input: unknown;
  readonly context: Record<string, unknown>;
  readonly forkedFrom?: string;
  status: "running" | "suspended" | "completed" | "error";
  at: number;
  leaves: Record<string, Leaf>;
  generation: number;
  /** What each top-level step was given. */
  entered: unknown[];
  outputs: Record<string, unknown>;
  suspension?: Suspension | undefined;
  result?: unknown;
  failure?: string | undefined;
  cancellation?: { reason: string | undefined } | undefined;
  runs: ExpectedRun[];
  /** The events that have ended a wait. */
  taken: string[];
  /** Leaves that have settled while the execution was held, in that order: told once it goes on. */
  untold: string[];
  /** Lifecycle events, as `<type> <from>`; step events apart from the others, because a race may swap the two. `?` may be missing. */
  stepEvents: string[];
  turns: string[];
  /** The same end, reached on other ways. */
  others?: Model[];
  /** Learnt at first sight; from then on they may not change. */
  times: { startAt?: string; suspendedAt?: string | undefined; endAt?: string };
}

export function begin(parts: Pick<Model, "id" | "workflow" | "input" | "context">): Model {
  const model: Model = {
    ...parts,
    status: "running",
    at: 0,
    leaves: {},
    generation: 0,
    entered: [],
    outputs: {},
    runs: [],
    taken: [],
    untold: [],
    stepEvents: [],
    turns: ["workflow-start"],
    times: {},
  };
  enter(model, 0, parts.input);
  goOn(model, true);
  return model;
}

export const isEnded = ({ status }: Model): boolean => status === "completed" || status === "error";

/** The steps whose code the execution still waits for. */
export function inFlight(model: Model): string[] {
  if (isEnded(model)) return [];
  return topOf(model).leaves.filter((id) => model.leaves[id]?.is === "running");
}

/** A step's code ends. Steps in flight finish and are recorded, also while the execution is suspended by request. */
export function finish(before: Model, step: string, action: Action, launch = true): Model {
  const model = structuredClone(before);
  if (action.type === "return") {
    const value = toValue(step, action.n);
    model.leaves[step] = { is: "done", value };
    model.outputs[step] = value;
  } else if (action.type === "suspend") {
    const { reason = `Suspended by step ${step}`, data, isTimed } = action;
    const due = isTimed ? { due: time.now + deadlineMs } : {};
    model.leaves[step] = { is: "parked", reason, ...(data !== undefined && { data }), ...due };
  } else {
    model.leaves[step] = { ...model.leaves[step], is: "failed" } as Leaf;
    model.failure ??= errorOf(step, action.shown);
  }
  if (action.type !== "suspend") model.untold.push(step);
  if (model.status === "running") goOn(model, launch);
  return model;
}

/** The deadline of a step that suspends with one. */
export const deadlineMs: number = 2 * tickMs;

/** The time is another one: waits and deadlines that are over end, all of them together. Not while it is held from outside. */
export function pass(before: Model): Model {
  if (isEnded(before) || before.suspension?.by === "request") return before;
  const model = structuredClone(before);
  if (!endDue(model)) return before;
  continueWoken(model);
  return model;
}

/** NEXT, section 3: an event is taken by an execution that waits for it, if it has not had it and the data is right. */
export function receive(before: Model, id: string, data: unknown): Model {
  const isTaken = before.leaves["mail"]?.is === "waiting" && !before.taken.includes(id) && has("n", "number")(data);
  if (isEnded(before) || before.suspension?.by === "request" || !isTaken) return before;
  const model = structuredClone(before);
  model.taken.push(id);
  endWait(model, "mail", data);
  continueWoken(model);
  return model;
}

function continueWoken(model: Model): void {
  model.status = "running";
  model.suspension = undefined;
  goOn(model, true);
}

/** Ends what is over, the first one first. Returns whether there was anything. */
function endDue(model: Model): boolean {
  const dues = Object.entries(model.leaves).flatMap(([id, leaf]) =>
    "due" in leaf && leaf.due !== undefined && leaf.due <= time.now ? [{ id, leaf, at: leaf.due }] : [],
  );
  for (const { id, leaf } of dues.toSorted((one, other) => one.at - other.at)) {
    if (leaf.is === "parked") model.leaves[id] = { is: "due", timedOut: true };
    else endWait(model, id, shapeOf(model.workflow).waits![id]!.kind === "timer" ? model.entered[model.at] : null);
  }
  return dues.length > 0;
}

function endWait(model: Model, id: string, value: unknown): void {
  model.leaves[id] = { is: "done", value };
  model.outputs[id] = value;
  model.untold.push(id);
}

/** Whether it would be suspended by its waits, and continue at once: time has passed while it was held from outside. */
export const isOverdue = (model: Model): boolean =>
  model.suspension?.by === "request" && endDue(structuredClone(model)) && inFlight(model).length === 0;

export const toValue = (step: string, n: number): unknown => ({ from: step, n });
export const hiddenError = "Failed to execute workflow";
export const errorOf = (step: string, shown: boolean): string => (shown ? `${step} says no` : hiddenError);

/** From outside. `stepId` is the step in flight, the first in the order of the definition, else the next. */
export function suspend(before: Model, reason = "Suspended by request"): Model | undefined {
  if (before.status !== "running") return undefined;
  const model = structuredClone(before);
  const { leaves } = topOf(model);
  const stepId =
    inFlight(model)[0] ??
    leaves.find((id) => model.leaves[id]?.is === "due") ??
    shapeOf(model.workflow).tops[model.at]!.id;
  park(model, { by: "request", kind: "request", reason, stepIndex: model.at, stepId });
  return model;
}

/** The status of the answer, and the execution after it when that is 200. */
export function resume(before: Model, stepId: string | undefined, data: unknown): { code: number; next?: Model } {
  const { suspension, workflow } = before;
  if (before.status !== "suspended" || !suspension) return { code: 404 };
  const { tops, accepts } = shapeOf(workflow);
  const takes = (step: string): boolean => accepts[step]?.(data) ?? true;
  const model = structuredClone(before);
  model.status = "running";
  model.suspension = undefined;
  const parked = suspension.by === "step" ? (stepId ?? suspension.stepId) : undefined;
  // A wait ends by its time or its event only.
  if (parked !== undefined && model.leaves[parked]?.is === "waiting") return { code: 409 };
  if (parked !== undefined && model.leaves[parked]?.is === "parked") {
    if (!takes(parked)) return { code: 400 };
    model.leaves[parked] = { is: "due", resumeData: data };
  } else if (stepId !== undefined) {
    const index = tops.findIndex(({ id }) => id === stepId);
    if (index < 0 || index > suspension.stepIndex || !takes(stepId)) return { code: 400 };
    model.stepEvents.push(...untoldEvents(before));
    goBack(model, index, data);
  }
  // Else it was suspended by request: nothing runs twice, and the data is neither checked nor used.
  goOn(model, true);
  return { code: 200, next: model };
}

/** NEXT, section 4: what failed and what was aborted because of it runs again, with the data of its resume; the rest stays. */
export function retry(before: Model): Model | undefined {
  if (before.status !== "error" || before.cancellation) return undefined;
  const model = structuredClone(before);
  model.status = "running";
  model.failure = undefined;
  delete model.times.endAt;
  for (const [id, leaf] of Object.entries(model.leaves))
    if (leaf.is === "failed" || leaf.is === "running") model.leaves[id] = { ...leaf, is: "due" };
  model.untold = model.untold.filter((id) => model.leaves[id]!.is === "done");
  goOn(model, true);
  return model;
}

/** NEXT, section 4: another execution, with the results of the steps before one that has begun, and without their events. */
export function fork(before: Model, fromStep: string | undefined, id: string): { code: number; next?: Model } {
  if (before.status === "running") return { code: 409 };
  const { tops } = shapeOf(before.workflow);
  const stop = before.status === "completed" ? 0 : before.at;
  const index = fromStep === undefined ? stop : tops.findIndex((top) => top.id === fromStep);
  if (index < 0 || index > before.at) return { code: 400 };
  const { workflow, input, context, entered } = structuredClone(before);
  const kept = tops.slice(0, index).flatMap((top) => [top.id, ...top.leaves]);
  const next: Model = {
    id,
    workflow,
    input,
    context,
    forkedFrom: before.id,
    status: "running",
    at: index,
    leaves: {},
    generation: 0,
    entered: entered.slice(0, index),
    outputs: Object.fromEntries(kept.map((step) => [step, structuredClone(before.outputs[step])])),
    runs: [],
    taken: [],
    untold: [],
    stepEvents: [],
    turns: ["workflow-start"],
    times: {},
  };
  enter(next, index, entered[index]);
  goOn(next, true);
  return { code: 200, next };
}

export function cancel(before: Model, reason: string | undefined): Model | undefined {
  if (isEnded(before)) return undefined;
  const model = structuredClone(before);
  model.stepEvents.push(...untoldEvents(before));
  model.suspension = undefined;
  model.cancellation = { reason };
  end(model, "error");
  return model;
}

/** The process ends and another begins: what was in flight runs again, once the execution goes on. */
export function restart(before: Model): Model {
  const model = structuredClone(before);
  if (isEnded(model)) return model;
  for (const id of inFlight(model)) model.leaves[id] = { ...model.leaves[id], is: "due" } as Leaf;
  if (model.status === "running") goOn(model, true);
  return model;
}

/** Every step event that may have been sent by now. */
export const toStory = (model: Model): string[] => [...model.stepEvents, ...untoldEvents(model)];

/** While it is held by request, what has settled may be told at once or when it goes on: DESIGN does not say. */
function untoldEvents(model: Model): string[] {
  if (model.status !== "suspended" || model.suspension?.by !== "request") return [];
  const next = structuredClone(model);
  next.status = "running";
  goOn(next, true);
  return next.stepEvents.slice(model.stepEvents.length).map((event) => `?${event}`);
}

function topOf(model: Model): Shape["tops"][number] {
  const { tops } = shapeOf(model.workflow);
  return tops[Math.min(model.at, tops.length - 1)]!;
}

function enter(model: Model, index: number, data: unknown, resumed?: { data: unknown }): void {
  model.at = index;
  model.entered[index] = data;
  const { id, leaves } = topOf(model);
  model.leaves = Object.fromEntries(
    leaves.map((leaf) => [leaf, { is: "due", ...(resumed && { resumeData: resumed.data }) }]),
  );
  model.stepEvents.push(`step-start ${id}`);
  for (const leaf of leaves) if (leaf !== id) model.stepEvents.push(`step-start ${leaf}`);
}

/** Later outputs are forgotten; what runs from here on has a new suffix. */
function goBack(model: Model, index: number, data: unknown): void {
  model.generation++;
  model.untold = [];
  model.failure = undefined;
  for (const { id, leaves } of shapeOf(model.workflow).tops.slice(index))
    for (const one of [id, ...leaves]) delete model.outputs[one];
  enter(model, index, model.entered[index], { data });
}

function goOn(model: Model, launch: boolean): void {
  for (;;) {
    if (model.suspension === undefined) endDue(model); // while it was held, or had failed
    const { id, leaves } = topOf(model);
    for (let leaf = model.untold.shift(); leaf !== undefined; leaf = model.untold.shift()) {
      if (model.leaves[leaf]!.is === "failed") return end(model, "error");
      model.stepEvents.push(`step-complete ${leaf}`);
    }
    if (leaves.some((leaf) => model.leaves[leaf]!.is !== "done")) break;
    const values = leaves.map((leaf) => model.outputs[leaf]);
    const output = leaves[0] === id ? values[0] : values;
    model.outputs[id] = output;
    if (leaves[0] !== id) model.stepEvents.push(`step-complete ${id}`);
    if (model.at === shapeOf(model.workflow).tops.length - 1) {
      model.result = output;
      return end(model, "completed");
    }
    enter(model, model.at + 1, output);
  }
  const { waits = {} } = shapeOf(model.workflow);
  for (const [leaf, { ms }] of Object.entries(waits))
    if (launch && model.leaves[leaf]?.is === "due")
      model.leaves[leaf] = { is: "waiting", ...(ms !== undefined && { due: time.now + ms }) };
  const { id, leaves } = topOf(model);
  const is = (state: Leaf["is"]): string[] => leaves.filter((leaf) => model.leaves[leaf]!.is === state);
  if (launch) for (const leaf of is("due")) run(model, leaf, leaf !== id);
  if (is("running").length > 0 || is("due").length > 0) return;
  // Only branches remain that wait.
  const branches = leaves.flatMap((stepId): Pending[] => {
    const leaf = model.leaves[stepId]!;
    const place = { stepIndex: model.at, stepId };
    if (leaf.is === "parked") {
      const { is: _, ...waiting } = leaf;
      return [{ ...place, kind: "person", ...waiting }];
    }
    if (leaf.is !== "waiting") return [];
    const { kind } = waits[stepId]!;
    const reason = kind === "event" ? `Waiting for event ${eventName}` : "Sleeping";
    return [{ ...place, kind, reason, ...(leaf.due !== undefined && { due: leaf.due }) }];
  });
  const of = (kind: Pending["kind"]): Pending | undefined => branches.find((one) => one.kind === kind);
  const shown = of("person") ?? of("event") ?? of("timer")!;
  const pending = [shown, ...branches.filter((one) => one !== shown)];
  park(model, { by: "step", ...shown, ...(pending.length > 1 && { pending }) });
}

function run(model: Model, step: string, inBranch: boolean): void {
  const { resumeData, timedOut = false } = model.leaves[step] as Leaf & { is: "due" };
  const resumes = "resumeData" in model.leaves[step]!;
  model.leaves[step] = { is: "running", ...(resumes && { resumeData }), ...(timedOut && { timedOut }) };
  const siblings = topOf(model).leaves;
  const others = stepIds(model.workflow).filter((id) => id === step || !siblings.includes(id));
  model.runs.push({
    step,
    suffix: model.generation > 0 ? `@${model.generation}` : "",
    data: model.entered[model.at],
    resumeData,
    anyResumeData: inBranch && model.generation > 0,
    timedOut,
    stepData: Object.fromEntries(others.map((id) => [id, model.outputs[id]])),
  });
}

function park(model: Model, suspension: Suspension): void {
  model.status = "suspended";
  model.suspension = suspension;
  model.times.suspendedAt = undefined;
  model.turns.push("workflow-suspended");
}

function end(model: Model, status: "completed" | "error"): void {
  model.status = status;
  model.turns.push(status === "completed" ? "workflow-complete" : "workflow-error");
}
