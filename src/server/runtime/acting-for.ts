import type { Caller, Identity } from "../../core/caller.ts";

/** The identity of the server itself. */
export const system: Identity = { checked: true, ownership: false, caller: undefined };

/** Returns the identity of code that acts for the user of an execution or agent call. */
export const actingFor = ({ user, userId }: Partial<Caller>): Identity => ({
  ...system,
  caller: user || userId !== undefined ? ({ user, userId } as Caller) : undefined, // without a provider there is only an id
});
