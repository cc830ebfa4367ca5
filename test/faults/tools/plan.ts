/** A line of the log of the host. */
export interface ToolLine {
  readonly what: "model" | "item";
  /** The question. */
  readonly turn: string;
  readonly executionId?: string;
  readonly item?: number;
  readonly life: number;
}
/** The items of the workflow: it takes long enough for a kill to find it at work. */
export const items = 8;
