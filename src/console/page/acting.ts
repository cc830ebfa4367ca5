import { canAct, signInState } from "./session.ts";

/** Returns the reason why the user cannot change anything, as a title of a disabled button. Undefined: they can. */
export function whyNot(): string | undefined {
  if (canAct()) return undefined;
  const state = signInState.value;
  return state.type === "open" && state.session.readOnly
    ? "The console is read-only"
    : "You may look, but not act, in the console";
}
