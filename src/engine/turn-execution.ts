/**
 * A turn of an agent is an execution with one step: it has the same journal, commits and recovery. It is never listed or
 * shown, takes no slot, is not counted, and is removed when it ends: its answer is in its conversation.
 */
const prefix = "@turn/";

/** Returns the workflow id for turns of an agent. Ids of real workflows begin with a letter or a digit. */
export const toTurnsId = (agentId: string): string => prefix + agentId;

/** Returns the agent id from the workflow id of a turn. Undefined for the id of a real workflow. */
export const agentOf = (workflowId: string): string | undefined =>
  workflowId.startsWith(prefix) ? workflowId.slice(prefix.length) : undefined;

export const isTurn = ({ workflowId }: { readonly workflowId: string }): boolean => workflowId.startsWith(prefix);

/** The condition of rows that are not turns. */
export const isNoTurn: string = `workflow not glob '${prefix}*'`;
