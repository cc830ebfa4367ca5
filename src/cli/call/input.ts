import { describe } from "../../core/explain.ts";
import { toVisible } from "../../core/visible.ts";
import { UsageError } from "../usage.ts";

const mostBytes = 16 * 1_024 * 1_024;

/** An argument, or with `-` what stdin holds. */
export async function readInput(argument: string | undefined): Promise<string | undefined> {
  if (argument !== "-") return argument;
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw new UsageError("stdin: expected at most 16 MiB");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

export function parseJson(text: string, from: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(`${from}: expected JSON, found ${toVisible(describe(text))}`, {
      hint: `single quotes keep it whole in a shell: '{"amount":500}'`,
    });
  }
}
