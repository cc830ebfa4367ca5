import { answer, letters, roundOf, type Data, type Settings } from "./workload.ts";
import type { ChildName } from "./child.ts";
import type { Line } from "./log.ts";

const roots = ["line", "flaky", "fork", "tour", "maze", "post", "ask", "panel", "mend", "crew", "family"] as const;
/** Parents before their children. */
export const workflowIds = [...roots, "kid"] as const;
export type WorkflowId = (typeof workflowIds)[number];

/** The code of each workflow, and what must be recorded before it may begin. Written from the definitions, by hand. */
const orders: Record<WorkflowId, Record<string, readonly string[]>> = {
  line: { a: [], note: ["a"], b: ["note"], "big?": ["b"], bigger: ["big?"], c: ["big?", "bigger"] },
  flaky: { a: [], shaky: ["a"], c: ["shaky"] },
  fork: {
    a: [],
    l: ["a"],
    "w?": ["a"],
    ws: ["w?"],
    "sub/x": ["a"],
    "sub/t": ["sub/x"],
    "sub/y": ["sub/t"],
    "sub>": ["sub/y"],
    r1: ["a"],
    r2: ["a"],
    join: ["l", "w?", "ws", "sub>", "r1", "r2"],
    broken: ["join"],
    fast: ["join"],
    late: ["join"],
    z: ["broken", "fast", "late"],
  },
  tour: {
    a: [],
    "each?": ["a"],
    "each/0/e": ["each?"],
    "each/1/e": ["each?"],
    "each/2/e": ["each?"],
    join: ["each/0/e", "each/1/e", "each/2/e"],
    "nap?": ["join"],
    "call?": ["nap?"],
    c: ["call?"],
  },
  maze: {
    a: [],
    "lap/0/run": ["a"],
    "lap/0?": ["lap/0/run"],
    "lap/1/run": ["lap/0?"],
    "lap/1?": ["lap/1/run"],
    "poll/0/look": ["lap/1?"],
    "poll/0?": ["poll/0/look"],
    "ways?0": ["poll/0?"],
    "ways?1": ["poll/0?"],
    double: ["ways?0", "ways?1"],
    plain: ["ways?0", "ways?1"],
    meet: ["double", "plain"],
    "dawn?": ["meet"],
    shape: ["dawn?"],
    c: ["shape"],
  },
  post: {
    a: [],
    "night?": ["a"],
    "letter?": ["night?"],
    "dusk?": ["night?"],
    weary: ["night?"],
    take: ["letter?", "dusk?", "weary"],
    "second?": ["take"],
    sum: ["second?"],
    reply: ["sum"],
    c: ["reply"],
  },
  ask: { a: [], ask: ["a"], c: ["ask"] },
  panel: {
    a: [],
    left: ["a"],
    busy: ["a"],
    "deep/p": ["a"],
    "deep/ask": ["deep/p"],
    join: ["left", "busy", "deep/ask"],
  },
  mend: { a: [], ask: ["a"], weak: ["ask"], c: ["weak"] },
  crew: {
    a: [],
    l: ["a"],
    weak: ["a"],
    m: ["a"],
    d1: ["a"],
    d2: ["a"],
    join: ["l", "weak", "m", "d1", "d2"],
    z: ["join"],
  },
  family: { a: [], kids: ["a"], c: ["kids"] },
  kid: { a: [], x: ["a"], t: ["x"], y: ["t"], z: ["y"] },
};
/** The top-level steps of each workflow, in order, each with the steps inside it. Written by hand as well. */
const tops: Record<WorkflowId, readonly (readonly string[])[]> = {
  line: [["a"], ["note"], ["b"], ["big", "bigger"], ["c"]],
  flaky: [["a"], ["shaky"], ["c"]],
  fork: [
    ["a"],
    ["all", "l", "w", "ws", "sub", "sub/x", "sub/t", "sub/y", "r", "r1", "r2"],
    ["join"],
    ["race", "broken", "fast", "late"],
    ["z"],
  ],
  tour: [["a"], ["each", "each/0/e", "each/1/e", "each/2/e"], ["join"], ["nap"], ["call"], ["c"]],
  maze: [
    ["a"],
    ["lap", "lap/0/run", "lap/1/run"],
    ["poll", "poll/0/look"],
    ["ways", "double", "plain"],
    ["meet"],
    ["dawn"],
    ["shape"],
    ["c"],
  ],
  post: [["a"], ["night"], ["both", "letter", "dusk", "weary"], ["take"], ["second"], ["sum"], ["reply"], ["c"]],
  ask: [["a"], ["ask"], ["c"]],
  panel: [["a"], ["both", "left", "busy", "deep", "deep/p", "deep/ask"], ["join"]],
  mend: [["a"], ["ask"], ["weak"], ["c"]],
  crew: [["a"], ["team", "l", "weak", "m", "duel", "d1", "d2"], ["join"], ["z"]],
  family: [["a"], ["kids"], ["c"]],
  kid: [["a"], ["x"], ["t"], ["y"], ["z"]],
};
/** The ids of the top-level steps. */
export const topSteps = (workflow: WorkflowId): string[] => tops[workflow].map(([id]) => id!);

/** The top-level step at which each workflow fails or waits: the default of `fromStep`. -1: it never does. */
export const stops: Record<WorkflowId, { readonly failed: number; readonly suspended: number }> = {
  line: { failed: -1, suspended: -1 },
  flaky: { failed: 1, suspended: -1 },
  fork: { failed: -1, suspended: -1 },
  tour: { failed: -1, suspended: -1 },
  maze: { failed: -1, suspended: -1 },
  post: { failed: -1, suspended: 6 }, // of its suspensions, the one that stays
  ask: { failed: -1, suspended: 1 },
  panel: { failed: -1, suspended: 1 },
  mend: { failed: 2, suspended: 1 },
  crew: { failed: 1, suspended: -1 },
  family: { failed: 1, suspended: -1 },
  kid: { failed: -1, suspended: -1 },
};

/** The steps whose failure can be what an execution that is broken fails with. */
const weakest: Partial<Record<WorkflowId, readonly string[]>> = {
  mend: ["weak"],
  crew: ["weak", "d1", "d2"],
  family: ["kids"],
};
/** What an execution that is broken can fail with. */
export const failures = ({ workflow }: Asked): readonly string[] =>
  (weakest[workflow] ?? []).map((step) => `${step} is broken`);

const composite: Partial<Record<WorkflowId, readonly string[]>> = {
  fork: ["all", "r", "race"],
  post: ["both"],
  panel: ["both", "deep"],
  crew: ["team", "duel"],
};
/** The step of a piece of code, whose path ends with a suffix if it is a condition, a map or the items of a loop. */
const toStep = (path: string): string => path.replace(/(\/\d+)?\?\d*$|>$/, "");
/** Every step, as events and suspensions name it. */
export const steps = (workflow: WorkflowId): string[] => [
  ...new Set(paths(workflow).map(toStep)),
  ...(composite[workflow] ?? []),
];
/** Every piece of user code, as the journal names it. */
export const paths = (workflow: WorkflowId): string[] => Object.keys(orders[workflow]);

/** All that must have been recorded when this began. */
export function before(workflow: WorkflowId, path: string): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (one: string): void => {
    for (const earlier of orders[workflow][one] ?? []) {
      found.add(earlier);
      visit(earlier);
    }
  };
  visit(path);
  return found;
}

/** What an execution was asked to do. */
export interface Asked {
  readonly workflow: WorkflowId;
  readonly n: number;
  readonly settings: Settings;
  /** How often it fails before it is mended. */
  readonly retries: number;
  /** What it was forked from. */
  readonly origin: Origin | undefined;
  /** The execution whose child it is, and its name there. */
  readonly child?: { readonly parent: string; readonly name: ChildName };
}
/** The original of a fork, as it was when it was forked. */
interface Origin {
  readonly id: string;
  /** The step that the client asked for. */
  readonly fromStep: string | undefined;
  /** The top-level step that the fork begins with. */
  readonly index: number;
  /** What each of its steps that ask was resumed with at last. */
  readonly tokens: ReadonlyMap<string, string>;
  /** What its result says, if it has one. */
  readonly trail: readonly string[];
}
/** The steps whose results a fork has copied, as events name them. */
const copiedSteps = ({ workflow, origin }: Asked): ReadonlySet<string> =>
  new Set(tops[workflow].slice(0, origin?.index ?? 0).flat());
/** Whether the result of this code was copied. */
export const isCopied = (asked: Asked, path: string): boolean => copiedSteps(asked).has(toStep(path));

/** What must come of it. */
export interface Expected {
  /** Any of these. Races have several right results. */
  readonly results: readonly unknown[];
  /** When it must fail. */
  readonly error: string | undefined;
  /** The code that must have run before it ends. */
  readonly must: readonly string[];
  /** The steps that complete, and groups of which one does. */
  readonly completes: readonly string[];
  readonly oneOf: readonly (readonly string[])[];
  /** Those that begin and need not complete. */
  readonly starts: readonly string[];
}

const asksOf: Record<WorkflowId, readonly string[]> = {
  line: [],
  flaky: [],
  fork: [],
  tour: [],
  maze: [],
  post: ["reply"],
  ask: ["ask"],
  panel: ["left", "deep/ask"],
  mend: ["ask"],
  crew: [],
  family: [],
  kid: [],
};
/** The paths of the steps that suspend. */
export const asking = (workflow: WorkflowId): readonly string[] => asksOf[workflow];

/** How many attempts one round of this code takes, when it does not fail for good. */
export const attemptsOf = ({ settings }: Asked, path: string): number =>
  path === "shaky" ? Math.min(settings.fails + 1, 3) : path === "weary" ? Math.min(settings.fails + 1, 2) : 1;
/** How many attempts this code has before it fails for good. */
export const budgetOf = (asked: Asked, path: string): number =>
  asked.workflow === "mend" && path === "weak" ? 2 : attemptsOf(asked, path);
/** How often this code is resumed. */
export const roundsOf = (asked: Asked, path: string): number =>
  asking(asked.workflow).includes(path) ? againOf(asked) + 1 : 0;
/** How often a step that was resumed asks again. */
export const againOf = ({ workflow, settings }: Asked): number => (workflow === "post" ? 0 : settings.again);

/** `tokens`: what each step was resumed with at last. */
export function expect(asked: Asked, tokens: ReadonlyMap<string, string>): Expected {
  const whole = expectWhole(asked, tokens);
  const { origin } = asked;
  if (!origin) return whole;
  const copied = copiedSteps(asked);
  const isNew = (step: string): boolean => !copied.has(step);
  // What the copied steps have made is in the result as it was in that of the original.
  const end = origin.trail.findIndex((name) => !copied.has(name.replace(/:.*/, "")));
  const same = origin.trail.slice(0, Math.max(0, end));
  return {
    ...whole,
    results: whole.results.filter((one) => same.every((name, index) => (one as Data).trail[index] === name)),
    must: whole.must.filter((path) => !isCopied(asked, path)),
    completes: whole.completes.filter(isNew),
    oneOf: whole.oneOf.filter((group) => group.every(isNew)),
    starts: whole.starts.filter(isNew),
  };
}

function expectWhole({ workflow, n, settings }: Asked, tokens: ReadonlyMap<string, string>): Expected {
  const first = n + 1;
  const none = { error: undefined, oneOf: [], starts: [] };
  const result = (value: number, ...trail: string[]): Data => ({ n: value, trail });
  const answered = (path: string): [number, string] => {
    const token = tokens.get(path) ?? "-";
    return [answer(token).amount, `${path}:${token}`];
  };
  switch (workflow) {
    case "line": {
      const [more, bigger] = (first + 2) % 2 === 0 ? [100, ["bigger"]] : [0, []];
      const must = ["a", "note", "b", "big?", ...bigger, "c"];
      const completes = ["a", "note", "b", "big", ...bigger, "c"];
      return { ...none, must, completes, results: [result(first + 2 + more + 3, "a", "b", ...bigger, "c")] };
    }
    case "flaky": {
      if (settings.fails >= 3)
        return {
          ...none,
          results: [],
          error: "shaky gave up",
          must: ["a", "shaky"],
          completes: ["a"],
          starts: ["shaky"],
        };
      return {
        ...none,
        must: paths("flaky"),
        completes: paths("flaky"),
        results: [result(first + 4 + 3, "a", "shaky", "c")],
      };
    }
    case "fork": {
      const even = first % 2 === 0;
      const [w, ws] = even ? [first * 2, ["ws"]] : [first, []];
      const sub = (first + 5) * 3;
      const results = [7, 8].flatMap((r) =>
        [10, 20].map((race) => {
          const sum = first + 2 + w + sub + first + r;
          const parts = ["a", "l", "a", ...ws, "a", "sub/x", "sub/y", "a", r === 7 ? "r1" : "r2"];
          return result(sum + race + 1, ...parts, "join", race === 10 ? "fast" : "late", "z");
        }),
      );
      const must = ["a", "l", "w?", ...ws, "sub/x", "sub/t", "sub/y", "sub>", "join", "z"];
      const completes = ["a", "all", "l", "w", ...ws, "sub", "sub/x", "sub/t", "sub/y", "r", "join", "race", "z"];
      const oneOf = [
        ["r1", "r2"],
        ["fast", "late"],
      ];
      return { ...none, results, must, completes, oneOf, starts: [...oneOf.flat(), "broken"] };
    }
    case "tour": {
      const items = [1, 2, 3].flatMap((more) => ["a", `i${more}`, `each/${more - 1}/e`]);
      const completes = ["a", "each", "each/0/e", "each/1/e", "each/2/e", "join", "nap", "call", "c"];
      const sum = 3 * first + (1 + 2 + 3) + 3 * 2;
      return { ...none, must: paths("tour"), completes, results: [result(sum + 3, ...items, "join", "c")] };
    }
    case "maze": {
      const isDouble = (first + 2 + 5) % 2 === 0;
      const [double, doubled] = isDouble ? [["double"], 2 * (first + 7)] : [[], 0];
      const around = ["a", "lap/0/run", "lap/1/run", "poll/0/look"];
      const trail = [...(isDouble ? [...around, "double"] : []), ...around, "plain", "meet", "c"];
      const must = paths("maze").filter((path) => isDouble || path !== "double");
      const completes = [...around, "lap", "poll", "ways", ...double, "plain", "meet", "dawn", "shape", "c"];
      return { ...none, must, completes, results: [result(doubled + first + 7 + 4 + 1 + 3, ...trail)] };
    }
    case "post": {
      const [amount, name] = answered("reply");
      const [one, two] = letters;
      const completes = steps("post");
      const value = first + 7 + one.amount + two.amount + amount + 3;
      const trail = ["a", "weary", `take:${one.mark}`, `sum:${two.mark}`, name, "c"];
      return { ...none, must: paths("post"), completes, results: [result(value, ...trail)] };
    }
    case "ask": {
      const [amount, name] = answered("ask");
      return {
        ...none,
        must: paths("ask"),
        completes: paths("ask"),
        results: [result(first + amount + 3, "a", name, "c")],
      };
    }
    case "panel": {
      const [left, leftName] = answered("left");
      const [right, rightName] = answered("deep/ask");
      const sum = first + left + (first + 9) + (first + 2 + right);
      const trail = ["a", leftName, "a", "busy", "a", "deep/p", rightName, "join"];
      const completes = ["a", "both", "left", "busy", "deep", "deep/p", "deep/ask", "join"];
      return { ...none, must: paths("panel"), completes, results: [result(sum, ...trail)] };
    }
    case "mend": {
      const [amount, name] = answered("ask");
      const results = [result(first + amount + 6 + 3, "a", name, "weak", "c")];
      return { ...none, must: paths("mend"), completes: paths("mend"), results };
    }
    case "crew": {
      const sum = first + 2 + first + 6 + first + 9 + first + 6;
      const trail = (duel: string): string[] => ["a", "l", "a", "weak", "a", "m", "a", duel, "join", "z"];
      const must = ["a", "l", "weak", "m", "join", "z"];
      const completes = ["a", "team", "l", "weak", "m", "duel", "join", "z"];
      const results = ["d1", "d2"].map((duel) => result(sum + 1, ...trail(duel)));
      return { ...none, results, must, completes, oneOf: [["d1", "d2"]], starts: ["d1", "d2"] };
    }
    case "family": {
      // Its children are given this number, and 1,000 more.
      const sum = first + ((first + 1 + 5) * 3 + 1) + ((first + 1_000 + 1 + 5) * 3 + 1);
      const kid = ["a", "x", "y", "z"];
      const results = [result(sum + 3, "a", ...kid, ...kid, "kids", "c")];
      return { ...none, must: paths("family"), completes: paths("family"), results };
    }
    case "kid": {
      const results = [result((first + 5) * 3 + 1, "a", "x", "y", "z")];
      return { ...none, must: paths("kid"), completes: paths("kid"), results };
    }
  }
}

interface Waiting {
  readonly stepIndex: number;
  readonly stepId: string;
  readonly reason: string;
  readonly kind: "person";
  readonly data: { n: number; round: number };
}

/** The steps that wait, if none is in flight: those that have asked and were not yet resumed for the last time. */
export function waiting({ workflow, n, settings }: Asked, lines: readonly Line[]): Waiting[] {
  return asking(workflow).flatMap((stepId) => {
    const rounds = lines.filter(({ path }) => path === stepId).map(({ token }) => roundOf(token));
    const round = Math.max(...rounds, 0);
    const given = stepId === "deep/ask" ? n + 1 + 2 : n + 1;
    if (rounds.length === 0 || round > settings.again) return [];
    return { stepIndex: 1, stepId, reason: `${stepId} ${round}`, kind: "person", data: { n: given, round } };
  });
}
