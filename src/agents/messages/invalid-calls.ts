/** The fields of answer parts that are read here. */
interface CallPart {
  readonly type: string;
  readonly toolCallId?: string;
  readonly invalid?: boolean | undefined;
  readonly providerExecuted?: boolean | undefined;
}

/**
 * The tool calls of an answer that are invalid. The chunk of such a call has its error already: the part with the error, which
 * follows, is left out. Older versions of the SDK do not leave it out themselves.
 */
export class InvalidCalls {
  #ids: Set<string> | undefined;

  /** Returns true for a part that repeats the error of an invalid call. */
  isRepeated({ type, toolCallId = "", invalid, providerExecuted }: CallPart): boolean {
    if (type === "tool-call" && invalid) (this.#ids ??= new Set()).add(toolCallId);
    return type === "tool-error" && !providerExecuted && this.#ids?.delete(toolCallId) === true;
  }
}
