import { ask, path } from "../server/api.ts";
import { useLoaded } from "../server/load.ts";
import { act } from "../parts/notices.tsx";
import { Empty, Show } from "../parts/states.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { toLink } from "../place.ts";
import { canAct } from "../session.ts";

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

/** The schedules, with their last and next times. */
export function Schedules() {
  const schedules = useLoaded((signal) => ask<Schedule[]>("/schedules", { signal }), []);
  const command = (id: string, name: "trigger" | "pause" | "resume", done: string): void =>
    void act(done, () => ask(path`/schedules/${id}/` + name, { method: "POST" })).then(schedules.reload);
  return (
    <>
      <h1>Schedules</h1>
      <Show of={schedules}>
        {(items) =>
          items.length === 0 ? (
            <Empty>
              None yet: create one with <code>defineSchedule()</code> in a file in <code>schedules/</code>.
            </Empty>
          ) : (
            <table class="stacked">
              <thead>
                <tr>
                  <th scope="col">Schedule</th>
                  <th scope="col">Workflow</th>
                  <th scope="col">Times</th>
                  <th scope="col">Last</th>
                  <th scope="col">Next</th>
                  <th scope="col">Actions</th>
                </tr>
              </thead>
              <tbody>
                {items.map(({ id, workflowId, cron, every, timezone, paused, lastAt, nextAt }) => (
                  <tr key={id}>
                    <th scope="row">
                      <Text value={id} />
                    </th>
                    <td data-label="Workflow">
                      <a href={toLink(["workflows", workflowId])}>
                        <Text value={workflowId} />
                      </a>
                    </td>
                    <td data-label="Times">
                      <code>{cron ?? `every ${every}`}</code> <small>{timezone}</small>
                    </td>
                    <td data-label="Last">{lastAt ? <Time at={lastAt} /> : "–"}</td>
                    <td data-label="Next">{paused ? "paused" : nextAt ? <Time at={nextAt} /> : "–"}</td>
                    <td class="actions">
                      <button
                        type="button"
                        class="small"
                        disabled={!canAct()}
                        onClick={() => command(id, "trigger", `Started ${id}`)}
                      >
                        Run now
                      </button>
                      <button
                        type="button"
                        class="small"
                        disabled={!canAct()}
                        onClick={() =>
                          paused ? command(id, "resume", `${id} continues`) : command(id, "pause", `${id} is paused`)
                        }
                      >
                        {paused ? "Continue" : "Pause"}
                      </button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Show>
    </>
  );
}
