import { roundOf, type Answer, type Data, type Settings } from "./workload.ts";
import type { Line } from "./log.ts";

export type WorkflowId = "line" | "flaky" | "fork" | "ask" | "panel";

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
  ask: { a: [], ask: ["a"], c: ["ask"] },
  panel: {
    a: [],
    left: ["a"],
    busy: ["a"],
    "deep/p": ["a"],
    "deep/ask": ["deep/p"],
    join: ["left", "busy", "deep/ask"],
  },
};
const composite: Partial<Record<WorkflowId, readonly string[]>> = {
  fork: ["all", "r", "race"],
  panel: ["both", "deep"],
};
/** Every step, as events and suspensions name it. */
export const steps = (workflow: WorkflowId): string[] => [
  ...paths(workflow).map((path) => path.replace(/[?>]$/, "")),
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
}
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
  ask: ["ask"],
  panel: ["left", "deep/ask"],
};
/** The paths of the steps that suspend. */
export const asking = (workflow: WorkflowId): readonly string[] => asksOf[workflow];

/** How many attempts one round of this code takes. */
export const attemptsOf = ({ settings }: Asked, path: string): number =>
  path === "shaky" ? Math.min(settings.fails + 1, 3) : 1;
/** How often this code is resumed. */
export const roundsOf = ({ workflow, settings }: Asked, path: string): number =>
  asking(workflow).includes(path) ? settings.again + 1 : 0;

/** What a resume with this token adds. */
export const answer = (token: string): Answer => ({
  token,
  amount: 1_000 * roundOf(token) + token.charCodeAt(token.length - 1),
});

/** `tokens`: what each step was resumed with at last. */
export function expect({ workflow, n, settings }: Asked, tokens: ReadonlyMap<string, string>): Expected {
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
  }
}

interface Waiting {
  readonly stepIndex: number;
  readonly stepId: string;
  readonly reason: string;
  readonly data: { n: number; round: number };
}

/** The steps that wait, if none is in flight: those that have asked and were not yet resumed for the last time. */
export function waiting({ workflow, n, settings }: Asked, lines: readonly Line[]): Waiting[] {
  return asking(workflow).flatMap((stepId) => {
    const rounds = lines.filter(({ path }) => path === stepId).map(({ token }) => roundOf(token));
    const round = Math.max(...rounds, 0);
    const given = stepId === "deep/ask" ? n + 1 + 2 : n + 1;
    if (rounds.length === 0 || round > settings.again) return [];
    return { stepIndex: 1, stepId, reason: `${stepId} ${round}`, data: { n: given, round } };
  });
}
