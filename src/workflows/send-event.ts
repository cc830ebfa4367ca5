import * as v from "valibot";
import { badRequest, ServeError } from "../core/error.ts";
import { cut } from "../core/cut.ts";
import { idRule, isId, newId } from "../core/id.ts";
import type { Engine } from "../engine/contract/engine.ts";
import type { EventToSend } from "../engine/runtime.ts";
import type { Share } from "../engine/rules/event-shares.ts";
import { longestKey, toStoredId, type SentEvent, type Sender } from "../engine/stored/sent-event.ts";
import { toText } from "./executions.ts";

const Id = v.pipe(
  v.string(),
  v.check((id: string) => isId(id), `expected ${idRule}`),
);
export const EventBody: v.GenericSchema<EventToSend> = v.object({
  name: Id,
  key: v.optional(v.pipe(v.string(), v.maxLength(longestKey, `expected at most ${longestKey} characters`))),
  data: v.optional(v.unknown()),
  // An `idempotencyKey` is one.
  id: v.optional(v.pipe(v.string(), v.regex(/^[\x21-\x7e]{1,1024}$/, "expected 1 to 1024 visible ASCII characters"))),
});

interface SendOptions extends Pick<SentEvent, "userId"> {
  readonly sender: Sender;
  readonly share: Share;
  readonly maxBytes: number;
}

/** Sends an event and returns its id. Throws a 409 if the sender has sent another event with this id. */
export async function sendEvent(
  engine: Engine,
  { name, key = "", data, id = newId() }: EventToSend,
  { sender, share, userId, maxBytes }: SendOptions,
): Promise<{ id: string }> {
  const text = toText(data, "data", badRequest);
  const bytes = Buffer.byteLength(text ?? "");
  if (bytes > maxBytes) throw new ServeError(413, `data is ${bytes} bytes as JSON: the limit is ${maxBytes}`);
  const event = { id: toStoredId(id, sender), name, key, data: text, userId, isFromCode: sender === "code" };
  const sending = await engine.send(event, share);
  if (sending === "conflict") throw new ServeError(409, `Event ${cut(id)} exists with another body`);
  return { id };
}
