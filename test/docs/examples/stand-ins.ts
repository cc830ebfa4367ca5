/** As much of curl as the examples need, for machines without it. */
export const curl = `
const init = { headers: {} };
let url;
const args = process.argv.slice(2);
while (args.length > 0) {
  const arg = args.shift();
  if (arg === "-X") init.method = args.shift();
  else if (arg === "-d") init.body = args.shift();
  else if (arg === "-H") {
    const [name, ...rest] = args.shift().split(":");
    init.headers[name] = rest.join(":").trim();
  } else if (arg === "-N") continue; // what arrives is shown at once
  else if (arg.startsWith("-")) throw new Error("curl " + arg + " is not known here");
  else url = arg;
}
if (init.body !== undefined) init.method ??= "POST";
process.stdout.write(await (await fetch(url, init)).text());
`;

/** `sqlite3 <file> ".backup '<copy>'"`, for machines without it. */
export const sqlite3 = `
import { backup, DatabaseSync } from "node:sqlite";
const [, , file, command] = process.argv;
const [, copy] = /^\\.backup '(.+)'$/.exec(command) ?? [];
if (copy === undefined) throw new Error("sqlite3 " + command + " is not known here");
await backup(new DatabaseSync(file, { readOnly: true }), copy);
`;
