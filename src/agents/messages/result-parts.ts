import type { ModelMessage } from "ai";

/** Returns the stream parts that show results for calls of an earlier turn. */
export function toResultParts(results: readonly ModelMessage[] = []): object[] {
  return results.flatMap(({ role, content }) => {
    if (role !== "tool") return [];
    return content.flatMap((part): object[] => {
      if (part.type !== "tool-result") return [];
      const { toolCallId, toolName, output } = part;
      const value = "value" in output ? output.value : undefined;
      if (output.type === "error-text") return [{ type: "tool-error", toolCallId, toolName, error: value }];
      return [{ type: "tool-result", toolCallId, toolName, output: value }];
    });
  });
}
