import fc from "fast-check";

/** A step of a tree, as data. `wait`: 0 returns at once, up to 5 are turns of the event loop, above are milliseconds. */
export type Node = { id: string } & (
  | { type: "andThen"; how: How; wait: number }
  | { type: "andTap"; fails: boolean; wait: number }
  | { type: "andWhen"; holds: Holds; wait: number; step: Node }
  | { type: "andAll" | "andRace"; steps: Node[] }
  | { type: "andWorkflow"; maps: boolean; steps: Node[] }
  | ForEachNode
  | { type: "andDoWhile" | "andDoUntil"; times: number; overflows: boolean; wait: number; steps: Node[] }
  | { type: "andBranch"; holds: Holds[]; wait: number; steps: Node[] }
  | { type: "andMap" }
  | { type: "andSleep" | "andSleepUntil"; ms: number; skippable: boolean }
  | WaitForNode
);
interface ForEachNode {
  type: "andForEach";
  /** The number of items that `items` returns; `data` if there is no such function. */
  items: number | "data";
  concurrency: number;
  onError: "fail" | "collect";
  maps: boolean;
  wait: number;
  steps: Node[];
}
export interface WaitForNode {
  type: "andWaitFor";
  key: "none" | "shared" | "own";
  timeout: number | undefined;
  checks: boolean;
  skippable: boolean;
}
type How =
  | "value"
  | "nothing"
  | "flaky"
  | "flaky, and slow to return"
  | "asks"
  | "asks, then flaky"
  | "asks in time"
  | "broken"
  | "broken twice"
  | "mends"
  | "hangs";
type Holds = boolean | "throws";
export type Tree = Node[];

/** The wait above which an execution is suspended. */
export const inlineSleepMs = 5_000;

const id = ""; // given by `named`
const wait = fc.nat(9);
const holds = fc.constantFrom<Holds>(true, true, true, true, false, false, false, "throws");
/** Waits that end at once, soon, without a suspension, and with one. */
const ms = fc.constantFrom(-5, 0, 3, 800, inlineSleepMs, 20_000, 7_200_000);
const skippable = fc.boolean();

type Weighted<T> = { weight: number; arbitrary: fc.Arbitrary<T> };
const plainHow: Weighted<How>[] = [
  { weight: 10, arbitrary: fc.constant("value") },
  { weight: 1, arbitrary: fc.constant("nothing") },
  { weight: 2, arbitrary: fc.constant("flaky") },
  { weight: 3, arbitrary: fc.constantFrom<How>("asks", "asks, then flaky") },
  { weight: 1, arbitrary: fc.constantFrom<How>("broken", "broken twice", "hangs") },
  { weight: 2, arbitrary: fc.constant("mends") },
];
const waitingHow: Weighted<How>[] = [
  ...plainHow,
  { weight: 2, arbitrary: fc.constantFrom<How>("asks in time", "flaky, and slow to return") },
];

const one = <T extends Node["type"], M>(type: T, model: { [K in keyof M]: fc.Arbitrary<M[K]> }) =>
  fc.record({ id: fc.constant(id), type: fc.constant(type), ...model });

const leafs = (how: Weighted<How>[]): Weighted<Node>[] => [
  { weight: 6, arbitrary: one("andThen", { how: fc.oneof(...how), wait }) as fc.Arbitrary<Node> },
  { weight: 1, arbitrary: one("andTap", { fails: fc.boolean(), wait }) as fc.Arbitrary<Node> },
];
const waitingLeafs: Weighted<Node>[] = [
  ...leafs(waitingHow),
  { weight: 1, arbitrary: one("andMap", {}) as fc.Arbitrary<Node> },
  {
    weight: 2,
    arbitrary: fc.constantFrom("andSleep" as const, "andSleepUntil" as const).chain((type) => {
      return one(type, { ms, skippable }) as fc.Arbitrary<Node>;
    }),
  },
  {
    weight: 2,
    arbitrary: one("andWaitFor", {
      key: fc.constantFrom<WaitForNode["key"]>("none", "shared", "own"),
      timeout: fc.option(ms, { nil: undefined }),
      checks: fc.boolean(),
      skippable,
    }) as fc.Arbitrary<Node>,
  },
];

/** A list of steps in a row, and a node of any kind. The casts are those of records with optional parts. */
function node(depth: number, isPlain: boolean): fc.Arbitrary<Node> {
  const leaf = fc.oneof(...(isPlain ? leafs(plainHow) : waitingLeafs));
  if (depth === 0) return leaf;
  const inner = node(depth - 1, isPlain);
  const steps = fc.array(inner, { maxLength: 3, size: "max" });
  const some = fc.array(inner, { minLength: 1, maxLength: 3, size: "max" });
  const few = fc.array(inner, { minLength: 1, maxLength: 2, size: "max" });
  const loops: Weighted<Node>[] = [
    {
      weight: 2,
      arbitrary: one("andForEach", {
        items: fc.oneof(
          { weight: 4, arbitrary: fc.nat(4) },
          { weight: 1, arbitrary: fc.constant<"data">("data") },
        ) as fc.Arbitrary<number | "data">,
        concurrency: fc.constantFrom(1, 2, Infinity),
        onError: fc.constantFrom<"fail" | "collect">("fail", "collect"),
        maps: fc.boolean(),
        wait,
        steps: few,
      }) as fc.Arbitrary<Node>,
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom("andDoWhile" as const, "andDoUntil" as const).chain((type) => {
        const overflows = fc.nat(5).map((number) => number === 0);
        return one(type, { times: fc.integer({ min: 1, max: 3 }), overflows, wait, steps: few }) as fc.Arbitrary<Node>;
      }),
    },
    {
      weight: 1,
      arbitrary: some.chain((branches) => {
        const all = fc.array(holds, { minLength: branches.length, maxLength: branches.length });
        return one("andBranch", { holds: all, wait, steps: fc.constant(branches) }) as fc.Arbitrary<Node>;
      }),
    },
  ];
  return fc.oneof(
    { weight: 4, arbitrary: leaf },
    { weight: 1, arbitrary: one("andWhen", { holds, wait, step: inner }) as fc.Arbitrary<Node> },
    { weight: 2, arbitrary: one("andAll", { steps }) as fc.Arbitrary<Node> },
    { weight: 2, arbitrary: one("andRace", { steps: some }) as fc.Arbitrary<Node> },
    { weight: 1, arbitrary: one("andWorkflow", { maps: fc.boolean(), steps: some }) as fc.Arbitrary<Node> },
    ...(isPlain ? [] : loops),
  );
}

const treeOf = (isPlain: boolean): fc.Arbitrary<Tree> =>
  fc.array(node(3, isPlain), { minLength: 2, maxLength: 5, size: "max" }).map((nodes) => named(nodes));

/** Trees with every kind of step. */
export const tree: fc.Arbitrary<Tree> = treeOf(false);
/** Trees of the steps that neither wait by themselves nor repeat anything. */
export const plainTree: fc.Arbitrary<Tree> = treeOf(true);

/** Ids that are unique where they must be: a sub-workflow uses those of the workflow around it again. */
function named(nodes: Node[], counter = { next: 0 }): Node[] {
  return nodes.map((each): Node => {
    const own = { id: `${isSilent(each) ? silent : "n"}${counter.next++}` };
    if (each.type === "andWorkflow") return { ...each, ...own, steps: named(each.steps) };
    if (each.type === "andWhen") return { ...each, ...own, step: named([each.step], counter)[0]! };
    if ("steps" in each) return { ...each, ...own, steps: named(each.steps, counter) };
    return { ...each, ...own };
  });
}

/** The first letter of the ids of steps with an entry in which no code of ours runs. */
export const silent = "s";
const isSilent = (each: Node): boolean => each.type === "andForEach" && each.items === "data";

/** One node in a line, so that a failure can be read. */
export function print(nodes: Tree, indent = ""): string {
  return nodes
    .map(({ ...each }) => {
      const inner = "steps" in each ? each.steps : "step" in each ? [each.step] : [];
      const own = Object.entries(each).filter(([key]) => !["id", "type", "step", "steps"].includes(key));
      const line = `${indent}${each.id} ${each.type} ${own.map(([key, value]) => `${key}=${value}`).join(" ")}`;
      return [line.trimEnd(), ...(inner.length > 0 ? [print(inner, `${indent}  `)] : [])].join("\n");
    })
    .join("\n");
}
