import { canAct } from "../../session.ts";

/** The title of a button that is disabled because the console may only look. */
export const noAct = (): string | undefined => (canAct() ? undefined : "You may only look: this console is read-only");
