import type { ScheduleChange, ScheduleStore, StoredSchedule } from "../../engine/contract/schedules.ts";
import type { ScheduleTable } from "./store/tables/schedule-table.ts";
import type { Writer } from "./store/writer.ts";

interface Parts {
  readonly schedules: ScheduleTable;
  readonly writer: Writer;
}

/** Schedules in the file of the executions. */
export class EmbeddedSchedules implements ScheduleStore {
  readonly #file: () => Parts;

  constructor(file: () => Parts) {
    this.#file = file;
  }

  async all(): Promise<readonly StoredSchedule[]> {
    return this.#file().schedules.all();
  }
  async find(id: string): Promise<StoredSchedule | undefined> {
    return this.#file().schedules.find(id);
  }
  change(id: string, change: ScheduleChange): Promise<StoredSchedule> {
    const { schedules, writer } = this.#file();
    return writer.request(() => schedules.change(id, change), "the schedule has not changed");
  }
}
