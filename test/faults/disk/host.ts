// A server on a file that can be made to fail: node test/faults/disk-host.ts <file> <log>. It is told over IPC what to do.
import { appendFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import * as v from "valibot";
import { embedded } from "../../../src/backends/embedded/define.ts";
import { toProject } from "../../../src/config/load.ts";
import { defineWorkflow } from "../../../src/index.ts";
import { openServer } from "../../../src/server/create.ts";
import { createGates } from "../../harness/gates.ts";
import { keepRecords } from "../../harness/logged.ts";

keepRecords();

/** What the test tells the host; each is answered once it is done. */
export type Order = { readonly sql: string } | { readonly gate: string } | { readonly close: true };
/** First that it listens, then that an order was carried out. */
export type Report = { readonly url: string } | { readonly rows: Record<string, number>[] };

const [file = "", log = ""] = process.argv.slice(2);
const gates = createGates();

// The connection is the server's own affair; faults that SQLite can be told to make are made on it.
const connections = new Set<DatabaseSync>();
const { prepare } = DatabaseSync.prototype;
DatabaseSync.prototype.prepare = function (this: DatabaseSync, sql: string) {
  if (this.location() === file) connections.add(this);
  return prepare.call(this, sql);
};

/** Written before the step does anything else, and to another disk. */
const note = ({ idempotencyKey }: { idempotencyKey: string }): void => appendFileSync(log, `${idempotencyKey}\n`);
// Large enough that it never fits into what is left of a page.
const pad = "x".repeat(6_000);

const quick = defineWorkflow({ id: "quick" }).andThen({
  id: "only",
  execute(context) {
    note(context);
    return { pad };
  },
});
const ask = defineWorkflow({ id: "ask", resumeSchema: v.object({ approved: v.boolean(), pad: v.string() }) })
  .andThen({ id: "prepare", execute: note })
  .andThen({
    id: "person",
    execute(context) {
      note(context);
      return context.resumeData ? { approved: context.resumeData.approved } : context.suspend("Approve?");
    },
  });
const gated = defineWorkflow({ id: "gated" })
  .andThen({ id: "first", execute: note })
  .andThen({
    id: "second",
    async execute(context) {
      note(context);
      await gates.pass(context.executionId);
      return { pad };
    },
  })
  .andThen({
    id: "third",
    execute(context) {
      note(context);
      return { length: context.data.pad.length };
    },
  });

const limits = { drainMs: 2_000, storeFreeBytes: 0 }; // a test closes it while it cannot write; one disk has 4 MB
const project = toProject({ workflows: [quick, ask, gated], backend: embedded({ path: file }), server: { limits } });
const server = openServer(project, { mode: "start" });
const { url } = await server.listen({ port: 0 });
const report = (what: Report): void => void process.send!(what);
process.on("message", async (order: Order) => {
  if ("close" in order) await server.close();
  if ("gate" in order) gates.open(order.gate);
  const [connection] = connections;
  // What a pragma answers are numbers.
  report({ rows: "sql" in order ? (connection!.prepare(order.sql).all() as Record<string, number>[]) : [] });
});
process.on("disconnect", () => process.exit()); // the test is over
report({ url });
