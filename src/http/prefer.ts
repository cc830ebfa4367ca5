import * as v from "valibot";

/** The `Prefer` header (RFC 7240). Its value is true if the client asks for a response before the work has ended. */
export const Prefer: v.GenericSchema<string | undefined, boolean> = v.pipe(
  v.optional(v.string()),
  v.description("`respond-async` asks for a 202 at once, before the work has ended."),
  v.transform((text) => text !== undefined && /\brespond-async\b/i.test(text)),
);
