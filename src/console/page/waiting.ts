import { computed, signal } from "@preact/signals";

/** The numbers of executions and of tool calls that wait for a person, as the inbox has read them last. */
export const waitingExecutions = signal(0);
export const waitingApprovals = signal(0);
export const waitingCount = computed(() => waitingExecutions.value + waitingApprovals.value);
