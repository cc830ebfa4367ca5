import { randomUUID } from "node:crypto";
import { embedded } from "../../src/backends/embedded/define.ts";
import { restate } from "../../src/backends/restate/define.ts";
import type { Backend } from "../../src/engine/contract/backend.ts";
import { freePort } from "../restate/restate-server.ts";
import { chosenBackend } from "./backends.ts";
import { patientTimeouts } from "./patience.ts";

const places = new Map<string, Promise<Backend>>();

/** The backend that `TEST_BACKEND` names, with data that outlives its server: the same path is the same data. */
export function openPlace(path: string): Promise<Backend> {
  const known = places.get(path);
  if (known) return known;
  const created = chosenBackend.name === "restate" ? createRestate() : Promise.resolve(embedded({ path }));
  places.set(path, created);
  return created;
}

/** One URL for all servers of a place: Restate continues at the next one what the last one left. */
async function createRestate(): Promise<Backend> {
  const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;
  return restate({
    ingress,
    admin,
    name: `place-${randomUUID()}`,
    serve: { port: await freePort() },
    timeouts: patientTimeouts,
  });
}
