import type { JsonSchema } from "../../core/schemas/json-schema.ts";
import { quote } from "../../core/terminal/shell.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import type { Execution } from "./execution.ts";
import type { PendingStep } from "./suspension.ts";
import type { Target } from "./target.ts";
import { toWaitText } from "./wait-text.ts";

/** Returns the commands that resume an execution later. */
export function toResumeLines(
  execution: Execution,
  pending: PendingStep,
  schema: JsonSchema | undefined,
  target: Target,
): string[] {
  const shape = toShape(schema);
  const stepId = pending.others > 0 ? `,"options":{"stepId":${JSON.stringify(pending.stepId)}}` : "";
  const body = toWord(`{"resumeData":${shape}${stepId}}`);
  return [
    `execution ${execution.id} is suspended; resume it with`,
    `  ${toFollow(execution, target)} --resume ${toWord(shape)}`,
    `  ${toCurl(execution, "resume", target)} -H 'content-type: application/json' -d ${body}`,
  ];
}

/** Returns the lines about an execution that continues at a time, or with an event. */
export function toWaitLines(execution: Execution, pending: PendingStep, target: Target): string[] {
  const lines = [
    `execution ${execution.id} ${toWaitText(pending)}`,
    `  follow it later with: ${toFollow(execution, target)}`,
  ];
  if (typeof pending.event !== "string") return lines;
  const { event: name, key } = pending;
  const body = toWord(JSON.stringify({ name, key, data: {} }));
  return [
    ...lines,
    `  send the event with: ${toPost(`${target.url}/events`, target)} -H 'content-type: application/json' -d ${body}`,
  ];
}

/** Returns the commands that follow or cancel an execution after Ctrl+C. */
export function toLeaveLines(execution: Execution, target: Target): string[] {
  return [
    `execution ${execution.id} continues on the server`,
    `  follow: ${toFollow(execution, target)}`,
    `  cancel: ${toCurl(execution, "cancel", target)}`,
  ];
}

const toFollow = ({ workflowId, id }: Execution, { flag }: Target): string =>
  `npx agentserve call workflow ${workflowId} --execution ${id}${flag}`;

const toCurl = ({ path }: Execution, action: string, target: Target): string =>
  toPost(`${target.url}${path}/${action}`, target);

function toPost(url: string, { token }: Target): string {
  const authorization = token === undefined ? "" : ` -H "Authorization: Bearer $AGENTSERVE_TOKEN"`;
  return `curl -X POST ${toWord(url)}${authorization}`;
}

/**
 * Returns the outline of a schema, such as `{"approved":<boolean>}`. It is not valid JSON, so that it cannot be sent by
 * mistake.
 */
export function toShape(schema: unknown, depth = 0): string {
  const { type, properties } = (schema ?? {}) as JsonSchema;
  if (type !== "object" || typeof properties !== "object" || properties === null || depth > 2) {
    return typeof type === "string" ? `<${type.slice(0, 20)}>` : "<json>";
  }
  const fields = Object.entries(properties).slice(0, 10);
  const shown = fields.map(([name, inner]) => `${JSON.stringify(name.slice(0, 60))}:${toShape(inner, depth + 1)}`);
  return `{${shown.join(",")}}`;
}

/** Quotes a text of the server as one shell word, without invisible characters. */
const toWord = (text: string): string => quote(toVisible(text));
