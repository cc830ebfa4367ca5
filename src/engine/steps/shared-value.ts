import type { Value } from "../walk/value.ts";

/** A value as other steps have it. Values of redacted steps are replaced in it. */
export interface SharedValue {
  readonly value: Value;
  readonly isReplaced?: boolean | undefined;
}

/** Replaces a value of a redacted step where another step has it. */
export const redacted: SharedValue = { value: '{"$redacted":true}', isReplaced: true };

export const none: SharedValue = { value: undefined };
