import { UserError } from "../../core/user-error.ts";
import { UsageError } from "../usage.ts";
import { interruptible, readInput, withKnownIds, type Call } from "./call.ts";
import type { ServerEvent } from "./events.ts";
import { showPart } from "./lines.ts";
import { askText } from "./prompt.ts";
import { dim, toSeconds, toShort } from "./screen.ts";

/** Calls an agent and prints its answer as it arrives. */
export async function callAgent({ id, input, flags, client, screen }: Call): Promise<void> {
  for (const name of ["execution", "resume"] as const) {
    if (flags[name] !== undefined) throw new UsageError(`--${name} works only with a workflow, not with an agent`);
  }
  const text = (await readInput(input)) ?? (screen.canAsk ? await askText("What do you want to ask?") : undefined);
  if (!text?.trim()) {
    throw new UsageError("<input>: expected a message for the agent", {
      hint: `for example: npx agentserve call agent ${id} "Hello"; pass - to read stdin`,
    });
  }
  const options = flags.conversation === undefined ? {} : { conversationId: flags.conversation };
  await interruptible(async (signal) => {
    const began = performance.now();
    const events = await client
      .stream("POST", `/agents/${id}/stream`, { body: { input: text, options }, signal })
      .catch(async (error: unknown) => {
        throw await withKnownIds(error, client, "agents", id);
      });
    let last: ServerEvent | undefined;
    try {
      for await (const event of events) {
        await screen.event(event);
        await showPart(screen, event, process.stdout);
        if (event.type === "finish" || event.type === "error" || event.type === "abort") last = event;
      }
    } finally {
      screen.endLine();
    }
    if (last?.type !== "finish") throw toFailure(last);
    screen.line(dim(toSummary(last, performance.now() - began)));
  });
}

function toFailure(last: ServerEvent | undefined): UserError {
  if (last?.type === "error") return new UserError(`The agent failed: ${toShort(last["error"], 2_000)}`);
  return new UserError("The stream ended before the answer was complete: expected a finish event", {
    hint: "check the log of the server, then try again",
  });
}

/** Returns a line such as `12 tokens in, 8 out · 1.2 s`. */
function toSummary({ usage, finishReason }: ServerEvent, ms: number): string {
  const { inputTokens, outputTokens } = (usage ?? {}) as Record<string, unknown>;
  const reason = finishReason === "stop" ? [] : [`finish reason: ${toShort(finishReason, 60)}`];
  return [`${count(inputTokens)} tokens in, ${count(outputTokens)} out`, toSeconds(ms), ...reason].join("  ·  ");
}

const count = (tokens: unknown): string => (typeof tokens === "number" ? String(tokens) : "?");
