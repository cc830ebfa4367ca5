import { useState } from "preact/hooks";
import { ask } from "../server/api.ts";
import { useLoaded } from "../server/load.ts";
import { TextField } from "../parts/field.tsx";
import { Show, Table } from "../parts/states.tsx";
import { Text } from "../parts/text.tsx";

interface ListedRoute {
  readonly method: string;
  readonly path: string;
  readonly access: "public" | "protected";
  /** The rule that decides. */
  readonly why: string;
  /** The entries that make an exception for some paths. */
  readonly except: readonly string[];
  readonly action: string | null;
  readonly isCustom: boolean;
}

/** Every route, and who may call it. */
export function Routes() {
  const [text, setText] = useState("");
  const routes = useLoaded((signal) => ask<{ routes: ListedRoute[] }>("/console/api/routes", { signal }), []);
  return (
    <>
      <h1>Routes</h1>
      <div class="filters">
        <TextField label="Path" type="search" value={text} onText={setText} />
      </div>
      <Show of={routes}>
        {({ routes: all }) => (
          <Table class="stacked" heads={["Route", "Access", "Rule", "Action of authorize"]}>
            {all
              .filter(({ path }) => path.includes(text))
              .map((route) => (
                <Row key={`${route.method} ${route.path}`} route={route} />
              ))}
          </Table>
        )}
      </Show>
    </>
  );
}

function Row({ route: { method, path, access, why, except, action, isCustom } }: { route: ListedRoute }) {
  return (
    <tr>
      <th scope="row">
        <code>
          {method} <Text value={path} />
        </code>
        {isCustom && <span class="tag">yours</span>}
      </th>
      <td data-label="Access">
        <span class="status" data-status={access}>
          {access}
        </span>
      </td>
      <td data-label="Rule">
        <Text value={why} />
        {except.length > 0 && (
          <small>
            {" "}
            except <Text value={except.join(", ")} />
          </small>
        )}
      </td>
      <td data-label="Action">{action ?? "–"}</td>
    </tr>
  );
}
