import type { ModelMessage } from "ai";
import { isObject } from "../../core/json.ts";
import { isDataUrl } from "./data-url.ts";
import type { UiParts } from "./ui-message.ts";

/**
 * Returns the parts of a UI message, continued by model messages. Tool results and approvals change the parts of their
 * calls, as in the AI SDK client. They are dropped for unknown calls.
 */
export function addModels(parts: UiParts, messages: readonly ModelMessage[]): UiParts {
  // The casts are safe: every part is made or changed by the functions below, in the form of its type.
  const all = parts.map((part) => part as unknown as Part);
  for (const { role, content } of messages) {
    if (role === "assistant") all.push({ type: "step-start" });
    const contents = typeof content === "string" ? [{ type: "text", text: content }] : content;
    for (const one of contents as readonly Part[]) addContent(all, one, role);
  }
  return all as unknown as UiParts;
}

interface Part {
  readonly type: string;
  readonly [name: string]: unknown;
}

function addContent(parts: Part[], content: Part, role: string): void {
  const { type, text, toolCallId, approvalId, providerOptions } = content;
  const metadata = providerOptions === undefined ? {} : { providerMetadata: providerOptions };
  switch (type) {
    case "text":
    case "reasoning":
      return void parts.push({ type, text, ...(role === "assistant" && { state: "done" }), ...metadata });
    case "custom":
      return void parts.push({ type, kind: content["kind"], ...metadata });
    case "file":
    case "reasoning-file":
    case "image":
      return void parts.push({ ...toFile(content), ...metadata });
    case "tool-call":
      return void parts.push(toCall(content));
    case "tool-result":
      return change(parts, (part) => part["toolCallId"] === toolCallId, toResult(content));
    case "tool-approval-request":
      return change(
        parts,
        (part) => part["toolCallId"] === toolCallId,
        (part) => ({ ...part, state: "approval-requested", approval: { id: approvalId } }),
      );
    case "tool-approval-response":
      return change(
        parts,
        ({ approval }) => isObject(approval) && approval["id"] === approvalId,
        (part) => ({ ...part, state: "approval-responded", approval: toDecision(part, content) }),
      );
  }
}

function change(parts: Part[], isMeant: (part: Part) => boolean, toChanged: (part: Part) => Part): void {
  const index = parts.findLastIndex(isMeant);
  if (index >= 0) parts[index] = toChanged(parts[index]!);
}

function toCall({ toolName, toolCallId, input, providerExecuted, providerOptions }: Part): Part {
  return {
    type: `tool-${String(toolName)}`,
    toolCallId,
    state: "input-available",
    input,
    ...(providerExecuted !== undefined && { providerExecuted }),
    ...(providerOptions !== undefined && { callProviderMetadata: providerOptions }),
  };
}

function toDecision({ approval }: Part, { approved, reason }: Part): unknown {
  return { ...(approval as object), approved, ...(reason !== undefined && { reason }) };
}

/** Returns the change that a result makes to the part of its call. */
function toResult({ output }: Part): (part: Part) => Part {
  const { type, value, reason } = isObject(output) ? output : { value: output };
  const errorText = typeof value === "string" ? value : JSON.stringify(value);
  return (part) => {
    const { approval, ...call } = part;
    // Only an approval that was granted may be beside a result.
    const granted = isObject(approval) && approval["approved"] === true ? { approval } : {};
    switch (type) {
      case "error-text":
      case "error-json":
        return { ...call, ...granted, state: "output-error", errorText };
      case "execution-denied":
        if (!isObject(approval)) return { ...call, state: "output-error", errorText: reason ?? "denied" };
        return { ...call, state: "output-denied", approval: toDecision(part, { type, approved: false, reason }) };
      default:
        return { ...call, ...granted, state: "output-available", output: value ?? null };
    }
  };
}

/** Converts a file. In a model message, it is a URL, base64, bytes, or an object with one of them. */
function toFile({ type, data, image, mediaType = "image", filename }: Part): Part {
  const source = data ?? image;
  const { url, reference } = toSource(source, String(mediaType));
  return {
    type: type === "image" ? "file" : type,
    mediaType,
    ...(filename !== undefined && { filename }),
    url,
    ...(reference !== undefined && { providerReference: reference }),
  };
}

function toSource(source: unknown, mediaType: string): { url: string; reference?: unknown } {
  const toData = (base64: string): { url: string } => ({ url: `data:${mediaType};base64,${base64}` });
  if (source instanceof URL) return { url: source.href };
  if (source instanceof Uint8Array) return toData(Buffer.from(source).toString("base64"));
  if (source instanceof ArrayBuffer) return toData(Buffer.from(source).toString("base64"));
  if (typeof source === "string") return isDataUrl(source) || URL.canParse(source) ? { url: source } : toData(source);
  if (!isObject(source)) return { url: "" };
  const { type, url, data, text } = source;
  if (type === "url") return { url: String(url) };
  if (type === "data") return toSource(data, mediaType);
  if (type === "text") return toData(Buffer.from(String(text)).toString("base64"));
  return { url: "", reference: source["reference"] ?? source };
}
