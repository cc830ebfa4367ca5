import { signal } from "@preact/signals";
import type { ApiError } from "../../server/api.ts";
import type { ExecutionRef } from "../../executions.ts";
import { reconnects } from "../../server/live.ts";
import { toApiError } from "../../session.ts";
import { listSteps, toTruncatedSize, type StepStatus, type StepView } from "../../step-list.ts";
import { createThrottle } from "../../server/throttle.ts";

/** The iterations of a loop that were read, and what they contain. */
export interface LoopItems {
  /** The status to which the items are limited. */
  readonly only: StepStatus | undefined;
  /** The start time of the loop. A loop that runs again has other items. */
  readonly startAt: string | undefined;
  readonly pages: readonly ItemPage[];
}
interface ItemPage {
  readonly cursor: string | undefined;
  readonly items: readonly StepView[];
  readonly next: string | null;
}

const maxPages = 10;

/**
 * The steps of an execution, as far as they were read.
 * 1. Steps outside loops are read at once, up to 2,000. Items of a loop are read page by page, once the loop was opened.
 * 2. Items have no values: a step's values are read when it is shown.
 * 3. A reload reads only those pages of items again that can have changed.
 */
export class StepStore {
  /** The steps outside loops. Undefined until they were read. */
  readonly steps = signal<readonly StepView[] | undefined>(undefined);
  readonly loops = signal<ReadonlyMap<string, LoopItems>>(new Map());
  readonly error = signal<ApiError | undefined>(undefined);
  /** True if there are more steps than are read. */
  readonly isCut = signal(false);
  readonly #of: ExecutionRef;
  readonly #controller = new AbortController();
  readonly #throttle = createThrottle(() => this.#read(), 250);
  readonly #reading = new Set<string>();
  readonly #stop: () => void;

  constructor(of: ExecutionRef) {
    this.#of = of;
    this.#stop = reconnects.subscribe(() => this.reload());
  }
  close(): void {
    this.#stop();
    this.#throttle.close();
    this.#controller.abort();
  }

  /** Reads again, at most four times in a second. */
  reload(): void {
    this.#throttle.call();
  }

  find(path: string): StepView | undefined {
    const isIt = (step: StepView): boolean => step.path === path;
    const found = this.steps.value?.find(isIt);
    if (found) return found;
    for (const [loop, { pages }] of this.loops.value) {
      if (!path.startsWith(`${loop}/`)) continue;
      for (const { items } of pages) {
        const item = items.find(isIt);
        if (item) return item;
      }
    }
    return undefined;
  }

  /** Shows the items of a loop, all of them or those with a status. */
  openLoop(path: string, only?: StepStatus): void {
    const held = this.loops.value.get(path);
    if (held && held.only === only) return;
    this.#set(path, { only, startAt: this.find(path)?.startAt, pages: [] });
    void this.readMore(path);
  }
  closeLoop(path: string): void {
    const loops = new Map(this.loops.value);
    for (const one of loops.keys()) if (one === path || one.startsWith(`${path}/`)) loops.delete(one);
    this.loops.value = loops;
  }
  /** Reads the next page of a loop, unless one is being read. */
  async readMore(path: string): Promise<void> {
    const held = this.loops.value.get(path);
    const last = held?.pages.at(-1);
    if (!held || last?.next === null || this.#reading.has(path)) return;
    this.#reading.add(path);
    const page = await this.#readPage(path, held.only, last?.next).catch(this.#fail);
    this.#reading.delete(path);
    const now = this.loops.value.get(path);
    if (!now || now.only !== held.only || now.startAt !== held.startAt) {
      if (now && now.pages.length === 0) void this.readMore(path); // another filter was chosen meanwhile
    } else if (page) this.#set(path, { ...now, pages: [...now.pages, page] });
  }

  async #read(): Promise<void> {
    try {
      const steps: StepView[] = [];
      let cursor: string | undefined;
      for (let pages = 0; pages === 0 || (cursor !== undefined && pages < maxPages); pages++) {
        const { items, nextCursor } = await listSteps(this.#of, { cursor }, this.#controller.signal);
        steps.push(...items);
        cursor = nextCursor ?? undefined;
      }
      this.steps.value = steps;
      this.isCut.value = cursor !== undefined;
      for (const path of this.loops.value.keys()) await this.#readAgain(path);
      this.error.value = undefined;
    } catch (error) {
      this.#fail(error);
    }
  }

  async #readAgain(path: string): Promise<void> {
    const held = this.loops.value.get(path);
    const step = this.find(path);
    if (!held || !step || this.#reading.has(path)) return;
    if (step.startAt !== held.startAt) {
      this.#set(path, { only: held.only, startAt: step.startAt, pages: [] });
      return this.readMore(path);
    }
    this.#reading.add(path);
    const pages: ItemPage[] = [];
    try {
      for (const [at, page] of held.pages.entries()) {
        const isLast = at === held.pages.length - 1;
        const canChange = isLast || held.only !== undefined || !page.items.every(isFinal);
        pages.push(canChange ? await this.#readPage(path, held.only, page.cursor) : page);
      }
    } finally {
      this.#reading.delete(path);
    }
    if (this.loops.value.get(path) === held) this.#set(path, { ...held, pages });
  }

  async #readPage(path: string, status: StepStatus | undefined, cursor: string | undefined): Promise<ItemPage> {
    const query = { under: path, status, cursor };
    const { items, nextCursor } = await listSteps(this.#of, query, this.#controller.signal);
    return { cursor, items: items.map(withoutValues), next: nextCursor };
  }

  #set(path: string, items: LoopItems): void {
    this.loops.value = new Map(this.loops.value).set(path, items);
  }
  readonly #fail = (error: unknown): undefined => {
    if (!this.#controller.signal.aborted) this.error.value = toApiError(error);
  };
}

/** A retry of the execution changes the steps that have not succeeded. */
const isFinal = ({ status }: StepView): boolean => status === "success" || status === "skipped";

/** Returns an item without its values. Markers of truncated values are kept. */
function withoutValues({ input, output, attempts, ...step }: StepView): StepView {
  return {
    ...step,
    attempts: attempts.slice(-1),
    ...(toTruncatedSize(input) !== undefined && { input }),
    ...(toTruncatedSize(output) !== undefined && { output }),
  };
}
