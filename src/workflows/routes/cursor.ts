import { badRequest } from "../../core/error.ts";
import { isExecutionId } from "../../core/id.ts";

export const toCursor = ({ startAt, id }: { startAt: number; id: string }): string =>
  Buffer.from(`${startAt} ${id}`).toString("base64url");

export function fromCursor(cursor: string): { startAt: number; id: string } {
  const [, startAt, id] = /^(\d{1,15}) (.+)$/.exec(Buffer.from(cursor, "base64url").toString()) ?? [];
  if (!startAt || !isExecutionId(id))
    throw badRequest("Invalid query: cursor: expected the nextCursor of a previous response");
  return { startAt: Number(startAt), id };
}
