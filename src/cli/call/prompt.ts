import { UserError } from "../../core/user-error.ts";
import { toVisible } from "../../core/terminal/visible.ts";

/** The error of a prompt that the user cancelled. */
export class CancelError extends UserError {
  constructor() {
    super("Cancelled: nothing was sent");
  }
}

/** Asks for a line of text. Returns an empty string if nothing was typed. */
export async function askText(message: string, placeholder = ""): Promise<string> {
  return String((await ask(message, { type: "text", placeholder, default: "" })) ?? "");
}

/**
 * Asks a yes/no question. `initial` is the answer of Enter: no, unless the schema says otherwise, because the action
 * may be irreversible.
 */
export async function askYesNo(message: string, initial: boolean): Promise<boolean> {
  return (await ask(message, { type: "confirm", initial })) === true;
}

/** Asks for one of the options and returns its index. */
export async function askChoice(message: string, labels: readonly string[], initial = 0): Promise<number> {
  const options = labels.map((label, at) => ({ label: toVisible(label, { max: 100 }), value: String(at) }));
  return Number(await ask(message, { type: "select", options, initial: String(initial) }));
}

type PromptOptions =
  | { type: "text"; placeholder: string; default: string }
  | { type: "confirm"; initial: boolean }
  | { type: "select"; options: { label: string; value: string }[]; initial: string };

async function ask(message: string, options: PromptOptions): Promise<unknown> {
  const { consola } = await import("consola");
  const shown = toVisible(message, { max: 500 });
  // The cast is for older types of consola.
  const answer: unknown = await consola.prompt(shown, { ...options, cancel: "symbol" } as never);
  if (typeof answer === "symbol") throw new CancelError();
  return answer;
}
