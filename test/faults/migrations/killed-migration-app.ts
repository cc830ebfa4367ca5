// Kills its process before a statement of its migration.
import { DatabaseSync } from "node:sqlite";
import type { Hosted } from "../../harness/hosted.ts";
import { toConfig } from "./project.ts";

export default function create({ file, at }: { file: string; at: number }): Hosted {
  const { exec } = DatabaseSync.prototype;
  let count = -1;
  DatabaseSync.prototype.exec = function (this: DatabaseSync, sql: string) {
    if (sql === "begin immediate") count = 0;
    else if (count >= 0 && ++count === at) process.kill(process.pid, "SIGKILL");
    return exec.call(this, sql);
  };
  return { config: toConfig(file) };
}
