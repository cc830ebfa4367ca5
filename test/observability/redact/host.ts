// A server as a process of its own, which logs what it is told to: node redact-host.ts. Its secrets come from the environment.
import { jwtAuth } from "../../../src/auth/jwt.ts";
import { runInScope, type LogIds } from "../../../src/core/scope.ts";
import { createServer } from "../../../src/server/create.ts";
import { chosenBackend } from "../../harness/backends.ts";
import { keepRecords } from "../../harness/logged.ts";

keepRecords();

interface Told {
  message: string;
  data?: Record<string, unknown>;
  ids?: LogIds;
}
const server = createServer({
  auth: jwtAuth({ secret: process.env["AUTH_JWT_SECRET"]! }),
  backend: chosenBackend.create(),
  configureApp: (app) =>
    void app.post("/log", async (event) => {
      const { message, data, ids = {} } = (await event.req.json()) as Told;
      runInScope(ids, () => event.context.logger!.info(message, data));
      return "ok";
    }),
});
const { url } = await server.listen({ port: 0 });
process.send!(url);
