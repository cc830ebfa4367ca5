import { UserError } from "../../core/user-error.ts";
import type { Inspection } from "../../engine/contract/backend.ts";
import { RestateClient } from "./client/client.ts";
import { countByStatus } from "./list/list.ts";
import type { RestateSettings } from "./options.ts";
import { loadSdk } from "./sdk.ts";

/** Reports about a cluster without registering this process. */
export async function inspect(settings: RestateSettings, root: string): Promise<Inspection> {
  loadSdk(root);
  const { name, admin } = settings;
  const client = new RestateClient(settings);
  try {
    const [version, url, executions] = await Promise.all([
      client.version(),
      client.registeredUrl(),
      countByStatus(client),
    ]);
    const registered = url === undefined ? `${name} is not registered yet` : `${name} is registered at ${url}`;
    return { place: admin, facts: [`Restate ${version}`, registered], isInUse: false, executions };
  } catch (error) {
    const hint = "start Restate, or correct ingress and admin of restate()";
    throw new UserError(`Restate cannot be reached at ${admin}`, { hint, cause: error });
  }
}
