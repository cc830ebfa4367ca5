import type { Block } from "./examples-blocks.ts";
import type { Tools } from "./examples-tools.ts";

/** What an example is run in. */
export interface World {
  /** All examples, in their order. */
  readonly blocks: readonly Block[];
  readonly tools: Tools;
}
