import * as v from "valibot";

/** The id of a user or a conversation, as a client gives it. It can be part of the path of a URL. */
export const GivenId: v.GenericSchema<string> = v.pipe(
  v.string(),
  v.maxLength(256, "expected at most 256 characters"),
  v.check((id: string) => id.isWellFormed(), "expected Unicode without lone surrogates"),
  v.check((id: string) => id !== "." && id !== "..", "expected an id other than . and .."),
);
/** An id that is not empty. */
export const OptionalId: v.GenericSchema<string | undefined> = v.optional(
  v.pipe(v.string(), v.nonEmpty("expected an id"), GivenId),
);
