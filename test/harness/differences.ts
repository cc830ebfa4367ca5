import { replicaCount } from "./backends.ts";

/**
 * Differences of several replicas from one server, in the words of `docs/scale-out.md`. A suite that runs on both checks what holds
 * in their place; `test/restate/differences.test.ts` has the rest.
 */
export const differences = {
  limits: "Limits are per replica:",
  emit: "Events of `emit`, and the tokens of `andAgent`, are not stored. They reach readers on the replica that drives the execution.",
  "workflow status":
    "`status` in `GET /workflows` and `GET /workflows/:id` is `running` if the replica that answers drives an execution of the workflow.",
};

/** Whether the suites run on replicas, which have a documented difference. */
export const hasDifference = (name: keyof typeof differences): boolean => replicaCount > 1 && name in differences;
