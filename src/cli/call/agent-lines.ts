import { colors } from "../colors.ts";
import type { ServerEvent } from "./events.ts";
import { dim, toShort, type Screen } from "./screen.ts";

/** Shows a part of an agent's answer: its text on `stream`, what it does and thinks on stderr. */
export async function showPart(screen: Screen, event: ServerEvent, stream: NodeJS.WriteStream): Promise<void> {
  const { type, delta, toolName, input, output, error } = event;
  switch (type) {
    case "text-delta":
      return screen.text(stream, String(delta ?? ""));
    case "reasoning-delta":
      return screen.text(process.stderr, String(delta ?? ""), dim);
    case "text-end":
    case "reasoning-end":
      return screen.endLine();
    case "tool-call":
      return screen.line(dim(`→ ${toShort(toolName, 100)} ${toShort(input)}`));
    case "tool-result":
      return screen.line(dim(`← ${toShort(toolName, 100)} ${toShort(output)}`));
    case "tool-error":
      return screen.line(`${colors.red("✗")} ${toShort(toolName, 100)} ${toShort(error)}`);
    case "tool-approval-request":
      return screen.line(colors.yellow(`? ${toShort(event["toolCall"])} waits to be allowed`));
    case "source":
      return screen.line(dim(`  ${toShort(event["title"] ?? "", 100)} ${toShort(event["url"] ?? "")}`));
    case "file":
      return screen.line(dim(`  a file: ${toShort(event["mediaType"], 100)}; --json shows it`));
  }
}
