// One version of two workflows. The second one renames a later step of `later`, and a step of `begun` that has started. Steps are
// reported when they start, and wait for the file `open`.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defineWorkflow } from "../../src/index.ts";
import type { Hosted } from "../harness/hosted.ts";
import { patientTimeouts } from "../harness/patience.ts";
import { serveReplica, type ReplicaPlace } from "./serve-replica.ts";

interface Options extends ReplicaPlace {
  readonly version: 1 | 2;
}

export default function create(place: Options, report: (executionId: string) => void): Hosted {
  const isNew = place.version === 2;
  const file = join(place.folder, "open");
  const toWorkflow = (id: string, first: string, last: string) =>
    defineWorkflow({ id })
      .andThen({ id: first, execute: () => first })
      .andThen({
        id: "middle",
        async execute({ executionId, data, suspend, resumeData, signal }) {
          if (executionId.startsWith("suspended")) return resumeData === undefined ? suspend("Waits") : data;
          report(executionId);
          while (!existsSync(file)) await sleep(50, undefined, { signal });
          return data;
        },
      })
      .andThen({ id: last, execute: ({ data }) => `${String(data)} ${last}` });
  const workflows = [
    toWorkflow("later", "first", isNew ? "final" : "last"),
    toWorkflow("begun", isNew ? "start" : "first", "last"),
  ];
  return serveReplica(
    place,
    { workflows, server: { limits: { drainMs: 100, drainNoticeMs: 0 } } },
    { timeouts: patientTimeouts },
  );
}
