import { replicaCount } from "./backends.ts";

/**
 * The documented differences of several replicas from one server (`docs/scale-out.md`), for the suites that run on both. A test
 * that meets one checks what holds in its place.
 */
const differences = {
  "workflow status": "A replica shows a workflow as `running` only for executions that it drives itself.",
};

/** Whether the suites run on replicas, which have a documented difference. */
export const hasDifference = (name: keyof typeof differences): boolean => replicaCount > 1 && name in differences;
