import { UserError } from "../../core/user-error.ts";
import { toVisible } from "../../core/visible.ts";

/** Somebody would rather not answer. */
export class CancelError extends UserError {
  constructor() {
    super("Cancelled: nothing was sent");
  }
}

/** A line of text; empty when nothing was typed. */
export async function askText(message: string, placeholder = ""): Promise<string> {
  return String((await ask(message, { type: "text", placeholder, default: "" })) ?? "");
}

/** No is what Enter means, unless the schema says otherwise: what is asked may not be taken back. */
export async function askYesNo(message: string, initial: boolean): Promise<boolean> {
  return (await ask(message, { type: "confirm", initial })) === true;
}

/** One of these, by its place. */
export async function askChoice(message: string, labels: readonly string[], initial = 0): Promise<number> {
  const options = labels.map((label, at) => ({ label: toVisible(label, { most: 100 }), value: String(at) }));
  return Number(await ask(message, { type: "select", options, initial: String(initial) }));
}

type PromptOptions =
  | { type: "text"; placeholder: string; default: string }
  | { type: "confirm"; initial: boolean }
  | { type: "select"; options: { label: string; value: string }[]; initial: string };

async function ask(message: string, options: PromptOptions): Promise<unknown> {
  const { consola } = await import("consola");
  const shown = toVisible(message, { most: 500 });
  const answer: unknown = await consola.prompt(shown, { ...options, cancel: "symbol" } as never); // its types lag behind
  if (typeof answer === "symbol") throw new CancelError();
  return answer;
}
