import { colors } from "../colors.ts";
import { examine, type Finding } from "./examine.ts";
import { exitCodes } from "../fail.ts";
import { leave } from "../output.ts";
import { writeResult } from "../result.ts";

/** Checks that the project can be served here, and prints the problems to fix. */
export async function doctor(flags: { config?: string; data?: string; json?: boolean }): Promise<void> {
  const { findings, startMs, memory } = await examine(flags);
  const ok = findings.every(({ status }) => status !== "failed");
  if (flags.json) writeResult(`${JSON.stringify({ ok, findings, startMs, memory }, null, 2)}\n`);
  else for (const finding of findings) process.stdout.write(toText(finding));
  if (!ok) process.exitCode = exitCodes.failed;
  await leave();
}

const marks = { ok: colors.green("✓"), warning: colors.yellow("!"), failed: colors.red("✗") };

function toText({ name, status, message, hint }: Finding): string {
  const indent = " ".repeat(11);
  const [first = "", ...more] = message.split("\n");
  const lines = [`${marks[status]} ${name.padEnd(9)}${first}`, ...more.map((line) => indent + line)];
  if (hint) lines.push(indent + colors.dim(hint));
  return `${lines.join("\n")}\n`;
}
