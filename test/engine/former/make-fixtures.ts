// Makes the files of this folder by a former build: node test/engine/former/make-fixtures.ts <commit>. `<commit>.sql` is the
// data file that its server has left when it was killed, `<commit>.json.gz` what the same build answers about it afterwards.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { gzipSync } from "node:zlib";
import { FormerBuild, type FormerProcess } from "../../harness/former-build.ts";
import { beginWork, continueWork, type Ask } from "./work.ts";

const module = join(import.meta.dirname, "work-app.ts");
const [commit = "640412b4"] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "agentserve-former-"));
const toFolder = (name: string): string => mkdtempSync(join(folder, name));
const toAsk =
  (server: FormerProcess): Ask =>
  (path, body) =>
    server.request(path, body);

const build = new FormerBuild(commit, toFolder("build"), [module]);
const made = toFolder("made");
writeFileSync(join(made, "ran"), "");
const first = await build.start(module, { folder: made });
await beginWork(toAsk(first), made);
await first.kill();
const madeAt = new Date().toISOString();
const used = toFolder("used");
cpSync(made, used, { recursive: true });
writeFileSync(join(used, "ran"), "");
const second = await build.start(module, { folder: used });
const answers = await continueWork(toAsk(second), used);
await second.kill();

writeFileSync(join(import.meta.dirname, `${commit}.sql`), toSql(join(made, "data.db")));
writeFileSync(
  join(import.meta.dirname, `${commit}.json.gz`),
  gzipSync(JSON.stringify({ madeAt, answers }), { level: 9 }),
);
rmSync(folder, { recursive: true, force: true });

/** Returns the statements that make the tables of a file, with their rows. */
function toSql(file: string): string {
  const db = new DatabaseSync(file);
  const read = (sql: string): Record<string, any>[] => db.prepare(sql).all();
  const { user_version: format } = read("pragma user_version")[0]!;
  const tables = read("select name, sql from sqlite_master where type = 'table' and name not like 'sqlite_%'");
  const others = read("select sql from sqlite_master where type <> 'table' and sql is not null");
  const rows = tables.flatMap(({ name }) => {
    const columns = read(`pragma table_info(${name})`).map((column) => column["name"] as string);
    const values = columns.map((column) => `quote("${column}")`).join(" || ',' || ");
    const names = columns.map((column) => `"${column}"`).join(",");
    return read(`select ${values} as row from "${name}"`).map(
      ({ row }) => `insert into "${name}"(${names}) values(${row});`,
    );
  });
  db.close();
  const statements = [...tables, ...others].map(({ sql }) => `${sql};`);
  return [...statements, ...rows, `pragma user_version = ${format};`, ""].join("\n");
}
