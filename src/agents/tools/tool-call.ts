/** A call of a tool, as the SDK makes it. The input is checked. */
export interface ToolCall {
  readonly name: string;
  readonly input: unknown;
  readonly toolCallId: string;
  readonly abortSignal: AbortSignal;
}
