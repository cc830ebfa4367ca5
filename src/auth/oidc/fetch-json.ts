import { isObject, tryParseJson } from "../../core/json.ts";

/** Max bytes of an issuer's response, after decompression. Real ones have a few KB. */
const maxBytes = 256 * 1_024;

/**
 * Reads a JSON object. The message of an error is for the log. A redirect is not followed: it could lead to an address
 * that is not encrypted, or to a service of the internal network.
 */
export async function fetchJson(url: URL, signal: AbortSignal): Promise<Record<string, unknown>> {
  const response = await fetch(url, { signal, redirect: "manual", headers: { accept: "application/json" } }).catch(
    (error: unknown) => {
      throw new Error(`GET ${url.href}: ${toCause(error)}`, { cause: error });
    },
  );
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`GET ${url.href}: expected status 200, found ${response.status}`);
  }
  const value = tryParseJson(await readText(response, url));
  if (!isObject(value)) throw new Error(`GET ${url.href}: expected a JSON object`);
  return value;
}

async function readText(response: Response, url: URL): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) break; // leaving the loop cancels the response
      chunks.push(chunk);
    }
  } catch (error) {
    throw new Error(`GET ${url.href}: ${toCause(error)}`, { cause: error });
  }
  if (bytes > maxBytes) throw new Error(`GET ${url.href}: the response is longer than ${maxBytes} bytes`);
  return Buffer.concat(chunks).toString();
}

/** Returns the code of a network error, which `fetch` hides in the cause. */
function toCause(error: unknown): string {
  const { cause, message } = error as { cause?: { code?: unknown; message?: unknown }; message?: unknown };
  return String(cause?.code ?? cause?.message ?? message ?? error);
}
