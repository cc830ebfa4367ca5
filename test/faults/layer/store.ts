import { DatabaseSync } from "node:sqlite";
import { storeFaults, type Faults } from "./faults.ts";

/** The writes of one file, some of which fail. */
export interface FaultyStore {
  /** The number of transactions that were committed. */
  readonly commits: () => number;
  close(): void;
}

const stores = new Map<string, { faults: Faults; committed: () => void; lock: (ms: number) => void }>();
const { prepare } = DatabaseSync.prototype;
/** Errors of SQLite that pass: busy, read-only, a disk error, a full disk. */
const codes = [5, 8, 10, 13];

/** The others last longer. */
const often = Array.from({ length: 8 }, () => "store fails" as const);

DatabaseSync.prototype.prepare = function (this: DatabaseSync, sql: string) {
  const statement = prepare.call(this, sql);
  const store = stores.get(this.location() ?? "");
  if (!store || (sql !== "begin immediate" && sql !== "commit")) return statement;
  const { faults } = store;
  const run = statement.run.bind(statement);
  statement.run = () => {
    const fault = faults.next(...often, ...storeFaults);
    if (fault === "store fails") throw toError(faults.random.pick(...codes));
    // Another connection locks the file from the next transaction on.
    if (fault === "store is locked") store.lock(faults.random.between(20, 120));
    if (fault === "store is locked for seconds") store.lock(faults.random.between(1_100, 1_500));
    const result = run();
    if (sql === "commit") store.committed();
    return result;
  };
  return statement;
};

const toError = (errcode: number): Error =>
  Object.assign(new Error("made to fail"), { code: "ERR_SQLITE_ERROR", errcode });

/** Call it before the server opens the file. */
export function createFaultyStore(file: string, faults: Faults): FaultyStore {
  let commits = 0;
  let other: DatabaseSync | undefined;
  let timer: NodeJS.Timeout | undefined;
  function lock(ms: number): void {
    if (timer) return;
    timer = setTimeout(unlock, ms);
    setImmediate(() => {
      if (!timer) return;
      other ??= new DatabaseSync(file);
      other.exec("begin immediate");
    });
  }
  function unlock(): void {
    clearTimeout(timer);
    timer = undefined;
    if (other?.isTransaction) other.exec("rollback");
  }
  stores.set(file, { faults, lock, committed: () => void commits++ });
  return {
    commits: () => commits,
    close() {
      unlock();
      other?.close();
      stores.delete(file);
    },
  };
}
