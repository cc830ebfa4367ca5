import { expect, it } from "vitest";
import { startHost } from "../harness/start-host.ts";

const streams = 300;
const requests = 1_200;
const readers = 8;

it(`frees the memory of requests early while ${streams} streams are open`, { timeout: 300_000 }, async () => {
  // With a small new space, fewer requests fill it.
  const settings = { execArgv: ["--max-semi-space-size=1"] };
  const host = await startHost("test/server/open-streams-app.ts", { streams }, settings);
  const opened: Response[] = []; // `fetch` closes a connection whose response is collected
  for (let n = 0; n < streams; n++) opened.push(await fetch(`${host.url}/executions/stream`));

  const ask = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) await (await fetch(`${host.url}/workflows`)).text();
  };
  const askAll = () => Promise.all(Array.from({ length: readers }, () => ask(requests / readers)));
  await askAll(); // until the code is compiled
  await host.order("start");
  await askAll();
  const bytes = (await host.order("stop")) / requests;
  console.log(`${streams} open streams: ${bytes.toFixed(0)} bytes of a request are moved to the old generation`);
  expect(bytes).toBeLessThan(1_000);
  expect(opened.filter(({ ok }) => ok)).toHaveLength(streams);
});
