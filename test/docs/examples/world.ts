import type { Block } from "./blocks.ts";
import type { Tools } from "./tools.ts";

/** What an example is run in. */
export interface World {
  /** All examples, in their order. */
  readonly blocks: readonly Block[];
  readonly tools: Tools;
}
