// A server that logs what it is told to. Its secrets come from the environment.
import { jwtAuth } from "../../../src/auth/jwt.ts";
import { runInScope, type LogIds } from "../../../src/core/scope.ts";
import { chosenBackend } from "../../harness/backends.ts";
import type { Hosted } from "../../harness/hosted.ts";

interface Told {
  message: string;
  data?: Record<string, unknown>;
  ids?: LogIds;
}

export default (): Hosted => ({
  config: {
    auth: jwtAuth({ secret: process.env["AUTH_JWT_SECRET"]! }),
    backend: chosenBackend.create(),
    configureApp: (app) =>
      void app.post("/log", async (event) => {
        const { message, data, ids = {} } = (await event.req.json()) as Told;
        runInScope(ids, () => event.context.logger!.info(message, data));
        return "ok";
      }),
  },
});
