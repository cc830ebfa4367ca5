import { createToken, jwtAuth, type Config } from "agentserve";
import { startTestServer, type TestServer } from "../../harness/server.ts";
import { secret } from "./tools.ts";

/** A server of these workflows, and what its only user sends along. */
export async function serveFor(
  workflows: NonNullable<Config["workflows"]>,
  userId: string,
): Promise<{ server: TestServer; headers: Record<string, string> }> {
  const server = await startTestServer("dev", { config: { workflows, auth: jwtAuth({ secret, ownership: true }) } });
  return { server, headers: { authorization: `Bearer ${await createToken({ sub: userId }, secret)}` } };
}
