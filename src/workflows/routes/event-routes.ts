import * as v from "valibot";
import { admit } from "../../core/access/authorizer.ts";
import { toUserSender } from "../../engine/stored/sent-event.ts";
import { Reply } from "../../http/envelope.ts";
import { defineRoute, type Route } from "../../http/route.ts";
import type { Workflows } from "../find.ts";
import { EventBody, sendEvent } from "../send-event.ts";
import { cannotStart } from "./errors.ts";
import type { WorkflowRoutesOptions } from "./replies.ts";

/** The route that sends events to waiting executions. */
export function eventRoutes({ engine, stepValueBytes: maxBytes }: WorkflowRoutesOptions): readonly Route<Workflows>[] {
  return [
    defineRoute({
      method: "POST",
      path: "/events",
      summary: "Send an event to the executions that wait for it",
      description:
        "Every execution that waits for the name and key gets it, now or later, until it expires. A repeated `id` with the same body has no effect. Ids are unique per sender: a user, the anonymous callers, or code. With `ownership`, it reaches executions of the caller only.",
      access: "protected",
      action: "event.send",
      yields: true,
      body: EventBody,
      responses: { 202: v.object({ id: v.string() }) },
      errors: { 409: "The id is that of another event of the sender", ...cannotStart },
      find: (head) => admit(head, undefined),
      async handle({ body, identity: { checked, ownership, caller } }) {
        const userId = ownership ? (caller?.userId ?? "") : undefined;
        const sender = toUserSender(caller?.userId);
        const share = checked ? "tenth" : "half";
        return new Reply(await sendEvent(engine, body, { userId, sender, share, maxBytes }), { status: 202 });
      },
    }),
  ];
}
