import type { ModelMessage } from "ai";
import { attempt } from "../../../core/attempt.ts";
import { badRequest, type ServeError } from "../../../core/error.ts";
import { isObject } from "../../../core/json.ts";
import { isDataUrl } from "../../messages/data-url.ts";

export const invalid = (where: string, why: string): ServeError => badRequest(`Invalid request body: ${where}: ${why}`);

/**
 * Checks the files in the parts of a message, and in the results of tools. The SDK accepts a malformed URL or malformed
 * base64 at first, and fails later with an error that does not name the part. Only trusted parts may refer to files at
 * the provider: these belong to the author's account.
 */
export function checkFiles(parts: unknown, where: string, trusted: boolean): void {
  if (!Array.isArray(parts)) return;
  for (const [index, part] of parts.entries()) {
    if (isObject(part)) checkPart(part, `${where}.${index}`, trusted);
  }
}

type Part = Record<string, unknown>;

function checkPart(part: Part, where: string, trusted: boolean): void {
  switch (part["type"]) {
    case "file":
    case "reasoning-file":
    case "image":
      return checkFile(part, where, trusted);
    case "file-data":
    case "image-data":
      checkMediaType(part["mediaType"], where);
      return checkBase64(part["data"], `${where}.data`);
    case "file-url":
    case "image-url":
      return void checkUrl(part["url"], `${where}.url`);
    case "file-id":
    case "file-reference":
    case "image-file-id":
    case "image-file-reference":
      return refuseReference(where, trusted);
    case "steering-message":
      return checkFiles(part["parts"], `${where}.parts`, trusted);
    case "tool-result":
      if (isObject(part["output"])) checkFiles(part["output"]["value"], `${where}.output.value`, trusted);
  }
}

/** Checks a file. It is in `url` of a UI message, and in `data` or `image` of a model message. */
function checkFile(part: Part, where: string, trusted: boolean): void {
  if (part["providerReference"] !== undefined) refuseReference(`${where}.providerReference`, trusted);
  const field = ["url", "image", "data"].find((name) => part[name] !== undefined) ?? "data";
  const source = part[field];
  const at = `${where}.${field}`;
  if (field === "url") return void (checkUrl(source, at) || checkMediaType(part["mediaType"], where));
  if (typeof source === "string" && (isDataUrl(source) || URL.canParse(source))) {
    return void (checkUrl(source, at) || checkMediaType(part["mediaType"], where));
  }
  checkMediaType(part["mediaType"], where);
  if (typeof source === "string") return checkBase64(source, at);
  if (!isObject(source)) return; // bytes, in the author's code
  if (source["type"] === "data") checkBase64(source["data"], `${at}.data`);
  else if (source["type"] === "url") checkUrl(source["url"], `${at}.url`);
  else if (source["type"] !== "text") refuseReference(at, trusted);
  else if (typeof source["text"] !== "string") throw invalid(`${at}.text`, "expected a string");
}

function refuseReference(where: string, trusted: boolean): void {
  if (trusted) return;
  throw invalid(where, "expected files as data: URLs, or as URLs that the model's provider fetches");
}

/** Checks a URL. Returns true for a `data:` URL, which has a media type of its own. */
function checkUrl(value: unknown, where: string): boolean {
  const given = value instanceof URL ? value.href : typeof value === "string" ? value : "";
  const text = isDataUrl(given) ? given : URL.parse(given)?.href;
  if (text === undefined) throw invalid(where, "expected a URL");
  if (!isDataUrl(text)) return false;
  const comma = text.indexOf(",");
  const [mediaType = "", ...parameters] = text.slice("data:".length, comma).split(";");
  if (comma < 0 || !fullMediaType.test(mediaType) || parameters.at(-1)?.toLowerCase() !== "base64") {
    throw invalid(where, "expected a data: URL like data:image/png;base64,…");
  }
  checkBase64(text.slice(comma + 1), where);
  return true;
}

function checkMediaType(value: unknown, where: string): void {
  if (value === undefined || (typeof value === "string" && mediaTypeOrRange.test(value))) return;
  throw invalid(`${where}.mediaType`, "expected a media type like image/png");
}

/** Checks base64 as the SDK reads it: with any whitespace, and with or without the characters for URLs. */
function checkBase64(value: unknown, where: string): void {
  if (value instanceof Uint8Array || value instanceof ArrayBuffer) return;
  const isValid = typeof value === "string" && attempt(() => atob(toStandard(value))) !== undefined;
  if (!isValid) throw invalid(where, "expected base64");
}

/** Replaces the characters for URLs. Works on bytes: `replaceAll` needs 0.2 s for a million of them. */
function toStandard(base64: string): string {
  if (!/[-_]/.test(base64)) return base64;
  const bytes = Buffer.from(base64);
  for (let index = 0; index < bytes.length; index++) {
    if (bytes[index] === dash) bytes[index] = plus;
    else if (bytes[index] === underscore) bytes[index] = slash;
  }
  return bytes.toString();
}
const [dash, plus, underscore, slash] = [45, 43, 95, 47];

const fullMediaType = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}$/;
/** `image/png`, and also `image` or `image/*`, which the SDK accepts. */
const mediaTypeOrRange = /^[\w!#$&^.+-]{1,127}(\/([\w!#$&^.+-]{1,127}|\*)\s*(;.{0,255})?)?$/;

/** Converts URLs that were serialized to JSON. The SDK takes a string in their place for a URL to download. */
export function withUrls(message: ModelMessage): ModelMessage {
  if (typeof message.content === "string") return message;
  // The cast is safe: only URLs change, from the JSON of the type to the type.
  return { ...message, content: message.content.map((part) => toPartWithUrl(part as never)) } as ModelMessage;
}

function toPartWithUrl(part: Part): Part {
  const { data, output } = part;
  if (isObject(output) && output["type"] === "content" && Array.isArray(output["value"])) {
    return { ...part, output: { ...output, value: output["value"].map(toPartWithUrl) } };
  }
  if (!isObject(data) || data["type"] !== "url" || typeof data["url"] !== "string") return part;
  return { ...part, data: { ...data, url: URL.parse(data["url"]) ?? data["url"] } };
}
