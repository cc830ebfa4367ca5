import { busy, type ServeError } from "../../core/error.ts";

/** Max turns that wait in one conversation. Steps of executions join beyond it: `runningExecutions` bounds them. */
const maxWaiting = 32;

/** True if the line of a conversation refuses a new turn. `turns` counts waiting turns and the running one. */
export const isLineFull = (turns: number): boolean => turns > maxWaiting;

/** The answer to a turn that is refused. */
export const lineFull = (): ServeError => busy("Too many turns are queued in this conversation", 5);
