import type { ListedExecution } from "../../executions.ts";
import { Table } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { Text } from "../../parts/text.tsx";
import { Duration, Time } from "../../parts/time.tsx";
import { runLink } from "../../place.ts";

/** Selects runs, or the opposite. */
export type Select = (ids: readonly string[], isSelected: boolean) => void;

interface TableProps {
  readonly rows: readonly ListedExecution[];
  readonly selected: ReadonlySet<string>;
  readonly onSelect: Select;
}

/** The runs of a page. */
export function RunTable({ rows, selected, onSelect }: TableProps) {
  const count = rows.filter(({ executionId }) => selected.has(executionId)).length;
  const all = (
    <input
      type="checkbox"
      aria-label="Select all shown runs"
      checked={count > 0 && count === rows.length}
      indeterminate={count > 0 && count < rows.length}
      onChange={({ currentTarget }) =>
        onSelect(
          rows.map(({ executionId }) => executionId),
          currentTarget.checked,
        )
      }
    />
  );
  return (
    <Table class="runs" heads={[all, "Run", "Status", "Started", "Took"]}>
      {rows.map((row) => (
        <Row key={row.executionId} row={row} isSelected={selected.has(row.executionId)} onSelect={onSelect} />
      ))}
    </Table>
  );
}

interface RowProps extends Pick<TableProps, "onSelect"> {
  readonly row: ListedExecution;
  readonly isSelected: boolean;
}

function Row({ row, isSelected, onSelect }: RowProps) {
  const { executionId, workflowId, status, startAt, endAt, suspension, cancellation, error } = row;
  const note = cancellation ? cancellation.reason : (suspension?.reason ?? error);
  return (
    <tr data-selected={isSelected}>
      <td>
        <input
          type="checkbox"
          aria-label={`Select ${executionId}`}
          checked={isSelected}
          onChange={({ currentTarget }) => onSelect([executionId], currentTarget.checked)}
        />
      </td>
      <th scope="row">
        <a href={runLink(workflowId, executionId)} data-run={executionId}>
          <Text value={executionId} />
        </a>
        <br />
        <small>
          <Text value={workflowId} />
          <span class="narrow">
            {" "}
            <Time at={startAt} />
          </span>
        </small>
      </th>
      <td>
        <Status status={cancellation ? "cancelled" : status} kind={suspension?.kind} />
        {note && (
          <small class="note">
            <Text value={note.slice(0, 200)} />
          </small>
        )}
      </td>
      <td>
        <Time at={startAt} />
      </td>
      <td>{status === "suspended" ? "–" : <Duration from={startAt} to={endAt} />}</td>
    </tr>
  );
}
