import type { ObjectContext, ObjectSharedContext, VirtualObjectDefinition } from "@restatedev/restate-sdk";
import {
  changeSchedule,
  type ScheduleChange,
  type ScheduleStore,
  type StoredSchedule,
} from "../../engine/contract/schedules.ts";
import { shortHandlers, reading, type ServiceNames } from "./calls.ts";
import type { RestateClient } from "./client/client.ts";
import type { RestateSdk } from "./sdk.ts";

/** The only object: a list of all schedules is one call. */
const key = "all";

interface ChangeInput {
  readonly id: string;
  readonly change: ScheduleChange;
}

/** The object of the schedules. Each has a state key of its own. */
export function createScheduleBook({
  sdk,
  names,
}: {
  readonly sdk: RestateSdk;
  readonly names: ServiceNames;
}): VirtualObjectDefinition<string, unknown> {
  return sdk.object({
    name: names.schedule,
    options: shortHandlers,
    handlers: {
      all: sdk.handlers.object.shared(reading, async (context: ObjectSharedContext): Promise<StoredSchedule[]> => {
        const ids = await context.stateKeys();
        const found = await Promise.all(ids.map((id) => context.get<StoredSchedule>(id)));
        return found.filter((one) => one !== null);
      }),
      find: sdk.handlers.object.shared(
        reading,
        async (context: ObjectSharedContext, id: string): Promise<StoredSchedule | null> => context.get(id),
      ),
      async change(context: ObjectContext, { id, change }: ChangeInput): Promise<StoredSchedule> {
        const changed = changeSchedule(id, (await context.get<StoredSchedule>(id)) ?? undefined, change);
        context.set(id, changed);
        return changed;
      },
    },
  });
}

interface Parts {
  readonly client: RestateClient;
  readonly names: ServiceNames;
  /** Resolves after the first registration, or the first failure of it. */
  readonly known: Promise<void>;
}

/** Schedules in Restate. Every replica works on all of them. */
export class RestateSchedules implements ScheduleStore {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async all(): Promise<readonly StoredSchedule[]> {
    const { client, names, known } = this.#parts;
    await known;
    return client.read(names.schedule, key, "all");
  }
  async find(id: string): Promise<StoredSchedule | undefined> {
    const { client, names, known } = this.#parts;
    await known;
    return (await client.read<StoredSchedule | null>(names.schedule, key, "find", id)) ?? undefined;
  }
  async change(id: string, change: ScheduleChange): Promise<StoredSchedule> {
    const { client, names, known } = this.#parts;
    await known;
    const input: ChangeInput = { id, change };
    return client.write(names.schedule, key, "change", input);
  }
}
