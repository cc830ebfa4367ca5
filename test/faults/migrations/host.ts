// A server that kills itself before a statement of its migration: node host.ts <file> <number of the statement>.
import { DatabaseSync } from "node:sqlite";
import { createServer } from "../../../src/index.ts";
import { toConfig } from "./project.ts";

const [file = "", at = ""] = process.argv.slice(2);
const { exec } = DatabaseSync.prototype;
let count = -1;
DatabaseSync.prototype.exec = function (this: DatabaseSync, sql: string) {
  if (sql === "begin immediate") count = 0;
  else if (count >= 0 && ++count === Number(at)) process.kill(process.pid, "SIGKILL");
  return exec.call(this, sql);
};
await createServer(toConfig(file)).fetch(new Request("http://localhost/workflows"));
process.stdout.write(`${count}`);
process.exit();
