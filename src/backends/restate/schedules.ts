import {
  changeSchedule,
  type ScheduleChange,
  type ScheduleStore,
  type StoredSchedule,
} from "../../engine/contract/schedules.ts";
import { shortHandlers, type ObjectService, type ServiceParts } from "./calls.ts";
import type { RestateClient } from "./client/client.ts";

/** The only object: a list of all schedules is one call. */
const key = "all";

interface ChangeInput {
  readonly id: string;
  readonly change: ScheduleChange;
}

/** The object of the schedules. Each has a state key of its own. */
export function createScheduleBook({ object, reads }: ServiceParts): ObjectService {
  return object("schedule", shortHandlers, {
    all: reads(async (context): Promise<StoredSchedule[]> => {
      const ids = await context.stateKeys();
      const found = await Promise.all(ids.map((id) => context.get<StoredSchedule>(id)));
      return found.filter((one) => one !== null);
    }),
    find: reads(async (context, id: string): Promise<StoredSchedule | null> => context.get(id)),
    async change(context, { id, change }: ChangeInput): Promise<StoredSchedule> {
      const changed = changeSchedule(id, (await context.get<StoredSchedule>(id)) ?? undefined, change);
      context.set(id, changed);
      return changed;
    },
  });
}

/** Schedules in Restate. Every replica works on all of them. */
export class RestateSchedules implements ScheduleStore {
  readonly #client: RestateClient;

  constructor(client: RestateClient) {
    this.#client = client;
  }

  all(): Promise<readonly StoredSchedule[]> {
    return this.#client.read("schedule/all", key);
  }
  async find(id: string): Promise<StoredSchedule | undefined> {
    return (await this.#client.read<StoredSchedule | null>("schedule/find", key, id)) ?? undefined;
  }
  change(id: string, change: ScheduleChange): Promise<StoredSchedule> {
    const input: ChangeInput = { id, change };
    return this.#client.write("schedule/change", key, input);
  }
}
