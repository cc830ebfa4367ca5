// Workflows on a file that can be made to fail: the order `sql` runs a statement on the server's own connection, `gate` opens a
// gate, `close` closes the server.
import { appendFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import * as v from "valibot";
import { embedded } from "../../../src/backends/embedded/define.ts";
import { defineWorkflow } from "../../../src/index.ts";
import { createGates } from "../../harness/gates.ts";
import type { Hosted } from "../../harness/hosted.ts";

export default function create({ file, log }: { file: string; log: string }): Hosted {
  const gates = createGates();
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
  return {
    config: { workflows: [quick, ask, gated], backend: embedded({ path: file }), server: { limits } },
    orders: {
      sql: (sql: string) => [...connections][0]!.prepare(sql).all(),
      gate: gates.open,
      close: (_, server) => server.close(),
    },
  };
}
