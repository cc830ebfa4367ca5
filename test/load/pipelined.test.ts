import { expect, it } from "vitest";
import { until, within } from "../harness/waiting.ts";
import { serve } from "./serve.ts";
import { leaveUnread, toGet } from "./unread.ts";

const requests = 1_000;
/** The most resident memory. All responses together have 1.7 GB. */
const maxMb = 700;

it(`survives a client that sends ${requests} requests at once and reads no response, with a heap of 256 MB`, async () => {
  const server = await serve({ heapMb: 256, more: 350 });
  const { byteLength } = await (await server.get("/workflows")).arrayBuffer();
  expect(byteLength).toBeGreaterThan(1_500_000);
  await leaveUnread(server.port, toGet("/workflows").repeat(requests));
  // Answered after the requests that were sent before it.
  const answers = Array.from({ length: 20 }, () => server.get("/agents").catch((error: unknown) => error as Error));
  const other = await within(Promise.all(answers), "answers to another client");
  if (other.some((answer) => answer instanceof Error)) await until(() => !server.lives(), "the end of the process");
  console.log(
    `${requests} pipelined requests: RSS ${server.lives() ? JSON.stringify(server.rss()) : "(it has ended)"}`,
  );
  expect(server.lives(), server.child.output().stderr.slice(-2_000)).toBe(true);
  expect(server.rss().peak, "MB").toBeLessThan(maxMb);
  expect((await server.get("/agents")).status).toBe(200);
});
