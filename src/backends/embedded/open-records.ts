import type { AttemptRecords } from "../../engine/contract/records.ts";
import type { Execution } from "../../engine/execution.ts";
import type { Store } from "./store/store.ts";
import type { Writer } from "./store/writer.ts";

interface RecordingDrive {
  readonly number: number;
  readonly execution: Execution;
  readonly isReleased: boolean;
}
interface RecordsHost {
  readonly store: Store;
  readonly writer: Writer;
  /** The execution has a further record. */
  changed(id: string): void;
}

/** Opens the results that the attempt with this key records. */
export function openRecords(
  drive: RecordingDrive,
  { store, writer, changed }: RecordsHost,
  key: string,
): AttemptRecords {
  const { number, execution } = drive;
  const { records, usage: counts } = store;
  const write: AttemptRecords["write"] = (name, text, usage) =>
    new Promise((resolve, reject) => {
      const row = store.newRow();
      const over = (): void => reject(new Error("The execution is no longer driven by this process"));
      writer.write({
        work: () => {
          if (!drive.isReleased && records.add(row, number, key, name, text) && usage) counts.add(usage);
          return !drive.isReleased;
        },
        done: (isWritten) => {
          changed(execution.id); // as after a row
          if (isWritten) resolve();
          else over();
        },
        fail: reject,
        stalled: () => {
          if (drive.isReleased) over();
          return drive.isReleased;
        },
      });
    });
  return { found: records.read(number, key), write };
}
