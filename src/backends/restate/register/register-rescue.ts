import type { ObjectSharedContext } from "@restatedev/restate-sdk";
import { forever, type Calls, type ServiceNames } from "../calls.ts";
import { hasEndedSolo } from "../former/solo.ts";
import type { RedriveInput, RescueInput } from "./register-state.ts";
import type { RestateSdk } from "../sdk.ts";

/** The part of a replica that ends drives. */
export interface RescueHost {
  /** Ends a drive by Restate's admin API. False: it runs on a replica that has its code. */
  endDrive(input: RescueInput): Promise<boolean>;
}
interface RescueParts {
  readonly sdk: RestateSdk;
  readonly names: ServiceNames;
  readonly calls: Calls;
  readonly host: RescueHost;
}

/**
 * Ends a drive that cannot continue, and starts another one from the rows. It is a handler, so that Restate completes it
 * on any replica: one that dies after the end of the old drive must not leave the execution without a new one.
 */
export function createRescue({
  sdk,
  names,
  calls,
  host,
}: RescueParts): (context: ObjectSharedContext, input: RescueInput) => Promise<void> {
  return sdk.handlers.object.shared(
    { enableLazyState: true, retryPolicy: { ...forever, initialInterval: 250, maxInterval: 10_000 } },
    async (context: ObjectSharedContext, input: RescueInput): Promise<void> => {
      const isEnded = await context.run("end", () => host.endDrive(input));
      if (!isEnded || (await hasEndedSolo(context, { names, calls }, input))) return;
      const next: RedriveInput = { ...input, cause: input.cause === "journal" ? "code" : input.cause };
      calls.tell(context, { service: names.register, key: context.key, method: "redrive" }, next);
    },
  );
}
