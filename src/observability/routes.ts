import * as v from "valibot";
import { logIds, logLevels } from "../core/log.ts";
import { toPage } from "../http/envelope.ts";
import { defineRoute, type Route } from "../http/route.ts";
import { defaultLimit, LogQuery, toMatcher } from "./filter.ts";
import type { Logs } from "./logs.ts";
import { toReader } from "./reader.ts";

const text = v.optional(v.string());
const RecordShape = v.object({
  seq: v.number(),
  timestamp: v.string(),
  level: v.picklist(logLevels),
  message: v.string(),
  ...Object.fromEntries(logIds.map((name) => [name, text])),
  data: v.optional(v.unknown()),
  error: text,
});

export function logRoutes({ ring }: Logs): readonly Route<unknown>[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/logs",
      summary: "The newest records of the log that match, oldest first",
      access: "public",
      query: LogQuery,
      responses: { 200: v.array(RecordShape) },
      handle({ query, identity }) {
        const found = ring.newest(toMatcher(query), query.limit ?? defaultLimit);
        const read = toReader({ identity, filter: query });
        // The records are JSON already.
        return toPage(`{"success":true,"data":[${found.map(read).join(",")}]}`, "application/json");
      },
    }),
  ];
}
