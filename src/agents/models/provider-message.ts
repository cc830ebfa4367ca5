import { cut } from "../../core/cut.ts";
import { maxOfMessage, toErrorMessage } from "../../core/error.ts";
import { toErrorFacts } from "./error-facts.ts";

/** Returns the provider's own message about an error, without secrets. If it sent none: the message of the error. */
export function toProviderMessage(error: unknown): string {
  const { texts } = toErrorFacts(error);
  // Without a message of the provider, an error has the text of its status, which the body may say better.
  const text = texts.findLast((found) => found.trim() !== "") ?? toErrorMessage(error);
  return cut(withoutSecrets(text.slice(0, 2 * maxOfMessage)), maxOfMessage);
}

/** Removes the query and the user of URLs, and keys: those of the environment, and those that look like one. */
export function withoutSecrets(text: string): string {
  let safe = text;
  for (const value of secretsOf(process.env)) safe = safe.replaceAll(value, hidden);
  return safe
    .replace(/\b([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/?#"'<>@]{1,500}@/gi, "$1")
    .replace(/\b([a-z][a-z0-9+.-]{0,20}:\/\/[^\s?#"'<>]{0,2000})[?#][^\s"'<>]*/gi, "$1")
    .replace(/\b(bearer|basic)\s+[\w.~+/=-]+/gi, `$1 ${hidden}`)
    .replace(/(\b(?:api|access|secret)[\s_-]?(?:key|token)[\w\s]{0,20}["']?\s?[:=]\s?["']?)[^\s"',]+/gi, `$1${hidden}`)
    .replace(/\b(?:sk|pk|gsk|xai|pplx|csk|fw|hf|r8|nvapi|vck)[-_][\w-]{3,}|\bAIza[\w-]{20,}|\bAKIA\w{12,}/g, hidden);
}
const hidden = "[hidden]";

const secretsOf = (env: NodeJS.ProcessEnv): string[] =>
  Object.entries(env)
    .filter(([name, value]) => /KEY|TOKEN|SECRET|PASSWORD/i.test(name) && value !== undefined && value.length >= 8)
    .map(([, value]) => value!);
