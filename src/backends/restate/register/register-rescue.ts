import type { ObjectSharedContext } from "@restatedev/restate-sdk";
import { forever, type ServiceParts } from "../calls.ts";
import { hasEndedSolo } from "../former/solo.ts";
import type { Interruptions } from "../drive/interruptions.ts";
import type { RedriveInput, RescueInput } from "./register-state.ts";

interface RescueParts extends ServiceParts {
  readonly host: { readonly interruptions: Interruptions };
}

/**
 * Ends a drive that cannot continue, and starts another one from the rows. It is a handler, so that Restate completes it
 * on any replica: one that dies after the end of the old drive must not leave the execution without a new one.
 */
export function createRescue({
  sdk,
  calls,
  host,
}: RescueParts): (context: ObjectSharedContext, input: RescueInput) => Promise<void> {
  return sdk.handlers.object.shared(
    { enableLazyState: true, retryPolicy: { ...forever, initialInterval: 250, maxInterval: 10_000 } },
    async (context: ObjectSharedContext, input: RescueInput): Promise<void> => {
      const isEnded = await context.run("end", () => host.interruptions.endDrive(input));
      if (!isEnded || (await hasEndedSolo(context, calls, input))) return;
      const next: RedriveInput = { ...input, cause: input.cause === "journal" ? "code" : input.cause };
      calls.tell(context, "register/redrive", next);
    },
  );
}
