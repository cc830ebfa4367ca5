import { expect, it } from "vitest";
import { dropBody } from "./actions.ts";
import { serve } from "./serve.ts";

const count = 50;

it("does not log an error for a client that drops its connection in the middle of a body", async () => {
  const server = await serve();
  for (let n = 0; n < count; n++) await dropBody(server, n);
  // A record that is written after those of the connections.
  await server.post("/workflows/broken/execute", { input: {} });
  const { data } = (await (await server.get("/api/logs?level=error&limit=100")).json()) as {
    data: { message: string }[];
  };
  expect(data.map(({ message }) => message)).toEqual(["Step failed"]);
});
