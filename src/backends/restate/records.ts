import type { InvocationId } from "@restatedev/restate-sdk";
import { busy } from "../../core/error.ts";
import { newId } from "../../core/id.ts";
import type { JsonText } from "../../core/json.ts";
import type { Execution } from "../../engine/execution.ts";
import type { AttemptRecords } from "../../engine/contract/records.ts";
import { shortHandlers, type ObjectService, type ServiceParts } from "./calls.ts";
import { persist, type RestateClient } from "./client/client.ts";
import { toUsageKey, toUsagePart, type UsagePart } from "./usage/service.ts";

/** Retention of records whose attempt left no result. */
const keptMs = 30 * 86_400_000;

/** The key of an attempt's records. An execution id can be used again after its retention. */
export const toRecordsKey = ({ id, startAt }: Execution, key: string): string => `${id} ${startAt} ${key}`;

interface WriteInput {
  /** The attempt that has opened the records. */
  readonly owner: string;
  readonly name: string;
  readonly text: JsonText;
  /** The usage of a model call, and the object that counts it. */
  readonly usage?: { readonly key: string; readonly part: UsagePart } | undefined;
}
/** A deleted conversation. Its usage is released after the usage of the records is counted. */
export interface ClearInput {
  readonly releases: string;
}

const toStateKey = (name: string): string => `r${name}`;
const toCountedKey = (name: string): string => `counted ${name}`;

/**
 * The results that one attempt records. Its state, by key: `owner` is the run that may write, `expiry` the scheduled removal,
 * `r<name>` one result, and `counted <name>` the run that counted its usage.
 *
 * The owner is the fence: a disconnected replica may still run the attempt, and cannot add to the records of its successor.
 */
export function createRecords({ calls, object, reads }: ServiceParts): ObjectService {
  return object("records", shortHandlers, {
    /** Makes a run of the attempt the owner. Returns the names of the results. */
    async open(context, owner: string): Promise<string[]> {
      context.set("owner", owner);
      if ((await context.get("expiry")) === null) {
        context.set("expiry", await calls.send(context, "records/clear", null, { delayMs: keptMs }));
      }
      const keys = await context.stateKeys();
      return keys.filter((key) => key.startsWith(toStateKey(""))).map((key) => key.slice(1));
    },

    /** Stores a result. Returns false if another run of the attempt is the owner. */
    async write(context, { owner, name, text, usage }: WriteInput): Promise<boolean> {
      if ((await context.get("owner")) !== owner) return false;
      context.set(toStateKey(name), text);
      // A write may be sent twice. Another run of the attempt has made the call again.
      if (!usage || (await context.get(toCountedKey(name))) === owner) return true;
      context.set(toCountedKey(name), owner);
      calls.tell(context, "usage/add", [usage.part], { key: usage.key });
      return true;
    },

    read: reads((context, name: string): Promise<JsonText | null> => context.get(toStateKey(name))),

    async clear(context, input: ClearInput | null): Promise<void> {
      const expiry = await context.get<InvocationId>("expiry");
      if (expiry !== null) context.cancel(expiry);
      context.clearAll();
      // From here, so that it follows what was counted.
      if (input) calls.tell(context, "usage/release", null, { key: input.releases });
    },
  });
}

/** Opens records over the ingress. Every call waits through an outage, like the result of a step. */
export async function openRecords(client: RestateClient, key: string): Promise<AttemptRecords> {
  const owner = newId();
  const known = await persist(() => client.write<string[]>("records/open", key, owner));
  const texts = await Promise.all(
    known.map((name) => persist(() => client.read<JsonText | null>("records/read", key, name))),
  );
  const found = known.map((name, index) => [name, texts[index]] as const);
  return {
    found: new Map(found.filter((one): one is readonly [string, JsonText] => typeof one[1] === "string")),
    async write(name, text, usage) {
      const input: WriteInput = {
        owner,
        name,
        text,
        usage: usage && { key: toUsageKey(usage), part: toUsagePart(usage) },
      };
      if (await persist(() => client.write<boolean>("records/write", key, input))) return;
      throw busy("The server was out of reach, and the call continues on another one", 1);
    },
  };
}
