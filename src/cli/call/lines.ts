import { colors } from "../colors.ts";
import type { ServerEvent } from "./events.ts";
import { dim, toSeconds, toShort, type Screen } from "./screen.ts";
import { toPendingStep } from "./suspension.ts";
import { toWaitText } from "./wait-text.ts";

const maxSteps = 10_000;

/** Prints the events of an execution to stderr, one line each. */
export class WorkflowLines {
  readonly #screen: Screen;
  /** Start times of the running steps. NaN: the time until a person answers is not part of a duration. */
  readonly #steps = new Map<string, number>();

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  async show(event: ServerEvent): Promise<void> {
    const { type, from } = event;
    const name = toShort(from, 200);
    switch (type) {
      case "step-start":
        if (this.#steps.size < maxSteps) this.#steps.set(name, timeOf(event));
        return this.#screen.line(dim(`▸ ${name}`));
      case "step-complete":
        this.#screen.line(toCompleted(name, event, timeOf(event) - (this.#steps.get(name) ?? Number.NaN)));
        return void this.#steps.delete(name);
      case "workflow-suspended":
        for (const open of this.#steps.keys()) this.#steps.set(open, Number.NaN);
        return this.#showSuspension(event);
      case "workflow-start":
      case "workflow-complete":
      case "workflow-error":
      case "workflow-result":
        return;
    }
    if (agentParts.has(type)) return showPart(this.#screen, event, process.stderr);
    const { type: _, executionId: __, from: ___, timestamp: ____, ...own } = event;
    const details = Object.keys(own).length > 0 ? ` ${toShort(own, 500)}` : "";
    this.#screen.line(`${colors.cyan("•")} ${toShort(type, 100)}${details}`);
  }

  #showSuspension({ suspension }: ServerEvent): void {
    const pending = toPendingStep(suspension);
    const { stepId, data, others } = pending;
    const also = others > 0 ? dim(`, and ${others} more`) : "";
    this.#screen.line(`${colors.yellow("‖")} ${toShort(stepId, 200)} ${toWaitText(pending, also)}`);
    if (data !== undefined) this.#screen.line(dim(`  ${toShort(data, 2_000)}`));
  }
}

function toCompleted(name: string, { status, attempt }: ServerEvent, ms: number): string {
  if (status === "skipped") return dim(`- ${name}  skipped`);
  const facts = [Number.isFinite(ms) ? toSeconds(Math.max(ms, 0)) : ""];
  if (typeof attempt === "number" && attempt > 1) facts.push(`attempt ${attempt}`);
  return `${colors.green("✓")} ${name}  ${dim(facts.filter(Boolean).join("  ·  "))}`.trimEnd();
}

/** The parts of an agent's answer. Those that `showPart` does not print say nothing to a person. */
const agentParts = new Set(
  [
    "start start-step finish-step finish abort error raw source file reasoning-file",
    "text-start text-delta text-end reasoning-start reasoning-delta reasoning-end",
    "tool-input-start tool-input-delta tool-input-end tool-call tool-result tool-error tool-output-denied",
    "tool-approval-request tool-approval-response",
  ].flatMap((names) => names.split(" ")),
);
const timeOf = ({ timestamp }: ServerEvent): number => Date.parse(String(timestamp));

/** Prints a part of an agent's answer: text to `stream`, reasoning and tool calls to stderr. */
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
      return screen.line(colors.yellow(`? ${toShort(event["toolCall"])} needs approval`));
    case "source":
      return screen.line(dim(`  ${toShort(event["title"] ?? "", 100)} ${toShort(event["url"] ?? "")}`));
    case "file":
      return screen.line(dim(`  file: ${toShort(event["mediaType"], 100)} (print it with --json)`));
  }
}
