import { Button } from "../parts/button.tsx";
import { ask, path } from "../server/api.ts";
import { useLoaded } from "../server/load.ts";
import { act } from "../parts/notices.tsx";
import { ShowList, Table } from "../parts/states.tsx";
import { Link, Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { toLink } from "../place.ts";

interface Schedule {
  readonly id: string;
  readonly workflowId: string;
  readonly cron?: string;
  readonly every?: string | number;
  readonly timezone: string;
  readonly paused: boolean;
  readonly lastAt?: string;
  readonly nextAt?: string;
}

type RunCommand = (id: string, name: "trigger" | "pause" | "resume", done: string) => void;

/** The schedules, with their last and next times. */
export function Schedules() {
  const schedules = useLoaded((signal) => ask<Schedule[]>("/schedules", { signal }), []);
  const run: RunCommand = (id, name, done) =>
    void act(done, () => ask(path`/schedules/${id}/` + name, { method: "POST" })).then(schedules.reload);
  const empty = (
    <>
      None yet: create one with <code>defineSchedule()</code> in a file in <code>schedules/</code>.
    </>
  );
  return (
    <>
      <h1>Schedules</h1>
      <ShowList of={schedules} empty={empty}>
        {(items) => (
          <Table class="stacked" heads={["Schedule", "Workflow", "Times", "Last", "Next", "Actions"]}>
            {items.map((schedule) => (
              <Row key={schedule.id} schedule={schedule} run={run} />
            ))}
          </Table>
        )}
      </ShowList>
    </>
  );
}

function Row({ schedule, run }: { schedule: Schedule; run: RunCommand }) {
  const { id, workflowId, cron, every, timezone, paused, lastAt, nextAt } = schedule;
  return (
    <tr>
      <th scope="row">
        <Text value={id} />
      </th>
      <td data-label="Workflow">
        <Link to={toLink(["workflows", workflowId])} text={workflowId} />
      </td>
      <td data-label="Times">
        <code>{cron ?? `every ${every}`}</code> <small>{timezone}</small>
      </td>
      <td data-label="Last">{lastAt ? <Time at={lastAt} /> : "–"}</td>
      <td data-label="Next">{paused ? "paused" : nextAt ? <Time at={nextAt} /> : "–"}</td>
      <td class="actions">
        <Button class="small" acts onClick={() => run(id, "trigger", `Started ${id}`)}>
          Run now
        </Button>
        <Button
          class="small"
          acts
          onClick={() => (paused ? run(id, "resume", `${id} continues`) : run(id, "pause", `${id} is paused`))}
        >
          {paused ? "Continue" : "Pause"}
        </Button>
      </td>
    </tr>
  );
}
