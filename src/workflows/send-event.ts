import * as v from "valibot";
import { badRequest, ServeError } from "../core/error.ts";
import { idRule, isId, newId } from "../core/id.ts";
import type { Engine } from "../engine/backend.ts";
import type { EventToSend } from "../engine/runtime.ts";
import { longestKey, type SentEvent } from "../engine/sent-event.ts";
import { toText } from "./executions.ts";

const Id = v.pipe(
  v.string(),
  v.check((id: string) => isId(id), `expected ${idRule}`),
);
export const EventBody: v.GenericSchema<EventToSend> = v.object({
  name: Id,
  key: v.optional(v.pipe(v.string(), v.maxLength(longestKey, `expected at most ${longestKey} characters`))),
  data: v.optional(v.unknown()),
  id: v.optional(Id),
});

/** Sends an event and returns its id. Throws a 409 if the id is that of another event. */
export async function sendEvent(
  engine: Engine,
  { name, key = "", data, id = newId() }: EventToSend,
  { maxBytes, ...sender }: Pick<SentEvent, "userId" | "isFromCode"> & { readonly maxBytes: number },
): Promise<{ id: string }> {
  const text = toText(data, "data", badRequest);
  const bytes = Buffer.byteLength(text ?? "");
  if (bytes > maxBytes) throw new ServeError(413, `data is ${bytes} bytes as JSON: the limit is ${maxBytes}`);
  const sending = await engine.send({ id, name, key, data: text, ...sender });
  if (sending === "conflict") throw new ServeError(409, `Event ${id} exists with another body`);
  return { id };
}
