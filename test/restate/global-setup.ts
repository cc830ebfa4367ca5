import { RestateServer } from "./restate-server.ts";

/** Starts one restate-server for all files. Workers inherit where it is. */
export default async function setup(): Promise<() => Promise<void>> {
  const server = await RestateServer.start();
  process.env["TEST_RESTATE_INGRESS"] = server.ingress;
  process.env["TEST_RESTATE_ADMIN"] = server.admin;
  return () => server.remove();
}
