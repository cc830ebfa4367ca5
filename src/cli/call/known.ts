import { nearest } from "../../core/explain.ts";
import { isId } from "../../core/id.ts";
import type { Client } from "./client.ts";
import { RefusalError } from "./failure.ts";

/** The error of an id that the server does not know, with those that it does as a hint. */
export async function withKnownIds(
  refusal: unknown,
  client: Client,
  nouns: "workflows" | "agents",
  id: string,
): Promise<unknown> {
  if (!(refusal instanceof RefusalError) || refusal.status !== 404) return refusal;
  const listed = await client.get(`/${nouns}`).catch(() => undefined);
  if (!Array.isArray(listed)) return refusal;
  const ids = listed.map((one: { id?: unknown } | null) => one?.id).filter(isId);
  if (ids.includes(id)) return refusal; // it is an execution that is not there
  const near = nearest(id, ids);
  const known = ids.slice(0, 10).join(", ") + (ids.length > 10 ? ` and ${ids.length - 10} more` : "");
  if (near.length > 0) return new RefusalError(404, refusal.message, `did you mean ${near.slice(0, 3).join(" or ")}?`);
  return new RefusalError(404, refusal.message, ids.length > 0 ? `there are ${known}` : `this server has no ${nouns}`);
}
