import * as v from "valibot";
import { admit, type Authorized } from "../core/access/authorizer.ts";
import { logLevels } from "../core/log.ts";
import { logIds } from "../core/scope.ts";
import { toPage } from "../http/envelope.ts";
import { defineRoute, type Route } from "../http/route.ts";
import { defaultLimit, LogQuery, toFinder, toReader } from "./filter.ts";
import type { Logs } from "./logs.ts";
import { fitting } from "./ring.ts";

const text = v.optional(v.string());
const RecordShape = v.pipe(
  v.object({
    seq: v.pipe(v.number(), v.integer()),
    timestamp: v.string(),
    level: v.picklist(logLevels),
    message: v.string(),
    ...Object.fromEntries(logIds.map((name) => [name, text])),
    data: v.optional(v.unknown()),
    error: text,
  }),
  v.title("LogRecord"),
);

/** Max bytes of records in one response. The oldest records are left out. */
const maxBytes = 2_097_152;

export function logRoutes({ ring }: Logs): readonly Route<Authorized>[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/logs",
      summary: "List the newest matching log records, oldest first",
      description: "A record must match every filter. The response has at most 2 MiB of records.",
      access: "public",
      action: "log.read",
      query: LogQuery,
      responses: { 200: v.array(RecordShape) },
      find: (head) => admit(head, undefined),
      handle({ query, identity }) {
        const matching = ring.newest(toFinder({ identity, filter: query }), query.limit ?? defaultLimit);
        const found = fitting(matching, maxBytes);
        const read = toReader({ identity, filter: query });
        // The records are already serialized.
        return toPage(`{"success":true,"data":[${found.map(read).join(",")}]}`, "application/json");
      },
    }),
  ];
}
