import { describe, nearest } from "../../core/schemas/explain.ts";
import { idRule, isId } from "../../core/id.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import { callAgent } from "./agent.ts";
import { Client } from "./client.ts";
import { dim, Screen } from "./screen.ts";
import { toTarget, type CallFlags } from "./target.ts";
import { callWorkflow } from "./workflow.ts";
import { UsageError } from "../usage.ts";

/** Runs a workflow or calls an agent of a running server. */
export async function call(
  { kind, id, input }: { kind: string; id: string; input?: string | undefined },
  flags: CallFlags,
): Promise<void> {
  const noun = toKind(kind);
  if (!isId(id)) throw new UsageError(`<id>: expected ${idRule}`);
  const screen = new Screen(flags.json ?? false);
  const client = new Client(toTarget(flags), (line) => screen.printNote(dim(line)));
  const asked = { id, input, flags, client, screen };
  await (noun === "agent" ? callAgent(asked) : callWorkflow(asked));
}

const kinds = ["workflow", "agent"] as const;

function toKind(text: string): (typeof kinds)[number] {
  const kind = kinds.find((name) => name === text);
  if (kind) return kind;
  const [near] = nearest(text.slice(0, 20), kinds, 3);
  throw new UsageError(`<kind>: expected workflow or agent, found ${toVisible(describe(text))}`, {
    hint: near ? `did you mean ${near}?` : 'for example: npx agentserve call agent assistant "Hello"',
  });
}
