// Each of these changes makes a test of this file fail: a list by the time of the last turn; a cursor that is an offset; a page
// that begins with the conversation of its cursor, or leaves one out.
import { join } from "node:path";
import { defineAgent } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import { expect, it } from "vitest";
import { chosenBackend, onFile } from "../../harness/backends.ts";
import { createFolder } from "../../harness/folders.ts";
import { patienceMs } from "../../harness/patience.ts";
import { startTestServer } from "../../harness/server.ts";
import { bySize } from "../../harness/size.ts";
import { readAll, toApi } from "./api.ts";

const isEmbedded = chosenBackend.name === "embedded";
const most = isEmbedded ? bySize(100, 1_000) : 100;
const writers = 10;

it(
  `reads ${most} conversations by pages while ${writers} writers append: none missed, none twice`,
  { timeout: 5 * patienceMs },
  async () => {
    const folder = createFolder("many");
    const answer: ScriptedStep = "Answer";
    const model = scriptedModel(Array.from({ length: 100_000 }, () => answer));
    const config = { agents: [defineAgent({ id: "helper", instructions: "x", model })] };
    const backend = isEmbedded ? onFile(join(folder, "data.db")) : chosenBackend;
    const server = await startTestServer("in process", { config, backend });
    const api = toApi(server, { userId: "ada" });
    const ids = Array.from({ length: most }, (_, index) => `c${index}`);
    const take = ids[Symbol.iterator]();
    await Promise.all(
      Array.from({ length: writers }, async () => {
        for (const id of take) expect((await api.say(id, `Begin ${id}`)).status).toBe(200);
      }),
    );
    // They append to old conversations and begin new ones, until the last page is read.
    const reading = { isOver: false };
    let appended = 0;
    const writing = Array.from({ length: writers }, async (_, writer) => {
      for (let turn = 0; !reading.isOver; turn++) {
        const id = turn % 3 === 2 ? `new-${writer}-${turn}` : ids[(turn * 97 + writer * 13) % most]!;
        expect((await api.say(id, `Append ${turn}`)).status).toBe(200);
        appended++;
      }
    });
    // A page is read when the writers have made progress since the one before.
    const onPage = async (): Promise<void> => {
      const before = appended;
      await expect.poll(() => appended, { timeout: patienceMs }).toBeGreaterThan(before + 2);
    };
    const items = await readAll(api, isEmbedded ? undefined : 10, onPage);
    reading.isOver = true;
    await Promise.all(writing);
    const found = items.map(({ id }) => id);
    expect(new Set(found).size).toBe(found.length);
    expect(found.filter((id) => !id.startsWith("new-")).toSorted()).toEqual(ids.toSorted());
    const order = items.map(({ createdAt }) => createdAt);
    expect(order).toEqual(order.toSorted().toReversed());
    console.log(`${most} conversations, ${appended} turns meanwhile`);
  },
);
