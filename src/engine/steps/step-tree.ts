import type { DescribedStep } from "../execution.ts";
import { isSequential, type StepTraits } from "../definition/step-traits.ts";

/** A step of a definition, with its place among the others. It is made of stored data: the workflow may be gone. */
export interface StepNode {
  /** The path in the execution: inside a loop it has the number of the iteration. */
  readonly path: string;
  /** The path in the definition. */
  readonly codePath: string;
  /** The id of the step itself: the last part of the path. */
  readonly stepId: string;
  readonly type: string;
  readonly traits: StepTraits;
  /** The place in the definition. */
  readonly index: number;
  /** The index of the top-level step that it is in. */
  readonly stepIndex: number;
  /** The step of the definition that contains it. */
  readonly parent: StepNode | undefined;
  readonly children: readonly StepNode[];
  /** The step before it, in the workflow, the sub-workflow or the loop. Undefined for the first one, and for branches. */
  readonly before: StepNode | undefined;
  /** True if its values are kept out of what is shown. */
  readonly isRedacted: boolean;
}

/** The meaning of a path: a step of the definition, or one loop iteration. */
export interface StepPath {
  readonly node: StepNode;
  /** The number, if the path is an iteration of the loop `node`. */
  readonly iteration?: number | undefined;
  /** The path of the innermost loop around it. */
  readonly loop?: string | undefined;
}

/** The steps of a definition. */
export class StepTree {
  readonly #nodes: ReadonlyMap<string, StepNode>;
  readonly #hasLoops: boolean;
  /** The last paths that were read: the paths of one row are read several times. */
  readonly #parsed = new Map<string, StepPath | undefined>();

  constructor(steps: readonly DescribedStep[]) {
    this.#nodes = toNodes(steps);
    this.#hasLoops = steps.some(([, , , , { shape }]) => shape === "loop");
  }

  /** The step of a path; undefined for an iteration. */
  find(path: string): StepNode | undefined {
    const found = this.parse(path);
    return found?.iteration === undefined ? found?.node : undefined;
  }

  /** Reads a path: the number after a loop id is not part of the definition. */
  parse(path: string): StepPath | undefined {
    if (!this.#hasLoops) return toStepPath(this.#nodes.get(path));
    const known = this.#parsed.get(path);
    if (known) return known;
    const parsed = this.#parse(path);
    if (this.#parsed.size >= maxParsed) this.#parsed.clear();
    this.#parsed.set(path, parsed);
    return parsed;
  }

  #parse(path: string): StepPath | undefined {
    const parts = path.split("/");
    let codePath = "";
    let loop: string | undefined;
    for (let index = 0; ; index++) {
      codePath += codePath === "" ? parts[index] : `/${parts[index]}`;
      const node = this.#nodes.get(codePath);
      if (index === parts.length - 1) return toStepPath(node, loop);
      if (node?.traits.shape !== "loop") continue;
      loop = parts.slice(0, index + 1).join("/");
      index++;
      if (!/^\d+$/.test(parts[index]!)) return undefined;
      if (index === parts.length - 1) return { node, iteration: Number(parts[index]), loop };
    }
  }
}

/** Max paths that are remembered. */
const maxParsed = 256;

const toStepPath = (node: StepNode | undefined, loop?: string): StepPath | undefined => node && { node, loop };

/** The node of one loop iteration. */
export function toIterationNode(loop: StepNode, index: number): StepNode {
  const { items } = loop.traits;
  const own = { type: items === "list" ? "item" : "iteration", traits: { shape: "sequence", items } as const };
  return { ...loop, ...own, path: `${loop.path}/${index}`, stepId: String(index), before: undefined };
}

/** The steps of a definition, by path and in its order. */
function toNodes(steps: readonly DescribedStep[]): ReadonlyMap<string, StepNode> {
  const nodes = new Map<string, StepNode>();
  /** The last step at each depth. */
  const last: (StepNode & { readonly children: StepNode[] })[] = [];
  let stepIndex = -1;
  for (const [index, [path, type, depth, mark, traits]] of steps.entries()) {
    if (depth === 0) stepIndex++;
    const parent = depth === 0 ? undefined : last[depth - 1];
    const before = !parent ? last[0] : isSequential(parent.traits) ? parent.children.at(-1) : undefined;
    const stepId = path.slice(path.lastIndexOf("/") + 1);
    const isRedacted = mark === "redacted";
    const own = { path, codePath: path, stepId, type, traits, index, stepIndex, isRedacted };
    const node = { ...own, parent, children: [], before };
    parent?.children.push(node);
    last[depth] = node;
    nodes.set(path, node);
  }
  return nodes;
}
