import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import { fromEventText } from "../../../../src/backends/embedded/store/tables/journal-table.ts";
import type { Execution } from "../../../../src/engine/execution.ts";
import type { EventBody, StoredEvent } from "../../../../src/engine/events.ts";

export interface Row {
  n: number;
  number: number;
  key: string;
  kind: string;
  at: number;
  body: string | null;
  seq: number;
  events: string | null;
  /** The events of steps that a fork has copied. */
  copied: string | null;
  /** Whether the transition that follows from it was made. It always is where one process decides. */
  moved?: boolean;
}
export interface Stored {
  execution: Execution;
  status: string;
  epoch: number;
  last: string | null;
  ended: number | null;
  /** What the beginning has in place of a row. */
  beginning: Pick<Row, "at" | "seq" | "events" | "copied">;
  rows: Row[];
  events: StoredEvent[];
}

/** Everything that a file has about an execution. */
export function readFile(path: string): Map<string, Stored> {
  const database = new DatabaseSync(path, { readOnly: true });
  const executions = "select * from executions left join definitions using (definition) order by id";
  const found = database.prepare(executions).all() as any[];
  const journal = database.prepare("select * from journal order by n").all() as unknown as Row[];
  database.close();
  const strays = journal.filter((row) => !found.some(({ number }) => row.number === number));
  expect(strays, "rows of nobody").toEqual([]);
  return new Map(
    found.map(
      ({ number, id, workflow, started, steps, input, options, status, epoch, last, ended, seq, events, copied }) => {
        const place = { id, workflowId: workflow, startAt: started, steps: JSON.parse(steps), input };
        const execution: Execution = { ...place, ...(options ? JSON.parse(options) : { context: {} }) };
        const beginning = { at: started, seq, events, copied };
        const rows = journal.filter((row) => row.number === number);
        return [id, withEvents({ execution, status, epoch, last, ended, beginning, rows })];
      },
    ),
  );
}

/** Numbers and times of events follow from where they stand. */
export function withEvents(stored: Omit<Stored, "events">): Stored {
  const { beginning, rows, execution } = stored;
  const all = [beginning, ...rows].flatMap((row) => happenings(row).map((one) => ({ ...one, at: row.at })));
  const events = all.map(({ at, ...one }, index) => ({
    ...one,
    executionId: execution.id,
    seq: index + 1,
    timestamp: new Date(at).toISOString(),
  }));
  return { ...stored, events };
}

export const happenings = ({ events }: Pick<Row, "events">): EventBody[] =>
  events === null ? [] : fromEventText(events);

/** The number of rows that a fork has copied: the results of the steps before the one that it began with. */
export function copiesOf({ execution: { fork, steps }, rows }: Pick<Stored, "execution" | "rows">): number {
  if (!fork) return 0;
  let index = -1;
  const topIndexes = new Map(steps.map(([path, , depth]) => [path, depth === 0 ? ++index : index]));
  const isOwn = ({ key, kind }: Row): boolean => {
    const path = withoutNumbers(/^~?([^?<>@#]*)/.exec(key)![1]!.replace(/\/$/, ""));
    return kind === "signal" || (topIndexes.get(path) ?? Infinity) >= fork.stepIndex;
  };
  const found = rows.findIndex(isOwn);
  return found < 0 ? rows.length : found;
}

/** The path of the definition: without the numbers of iterations. No id of a step is a number here. */
export const withoutNumbers = (path: string): string => path.replaceAll(/\/\d+(?=\/|$)/g, "");
