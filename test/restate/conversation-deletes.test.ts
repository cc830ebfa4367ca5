// Each of these changes makes a test of this file fail: a turn of another replica that stores its answer after the deletion; a
// place that is not told why it was dropped; a deletion that leaves some keys of the conversation.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { startChatReplicas, type ChatReplica } from "./chat-replicas.ts";

const kills = 5;

const isGone = async (replica: ChatReplica): Promise<boolean> => (await replica.conversation("c")).status === 404;
const answered = ["one", "re one", "two", "re two"];

describe("DELETE of a conversation on two replicas", () => {
  it("DELETE of a conversation stops its turns on the other replica", { timeout: 2 * patienceMs }, async () => {
    const { replicas, waitForLine } = await startChatReplicas();
    const [here, there] = replicas;
    for (const text of ["one", "two"]) await here.say("c", text);
    expect((await there.conversation("c")).texts).toEqual(answered);
    const running = there.say("c", "hold 1");
    await there.reached("hold 1");
    const waiting = there.say("c", "waits");
    await waitForLine("c", 2);
    expect((await here.conversation("c", "DELETE")).status).toBe(200);
    expect((await there.conversation("c")).status).toBe(404);
    expect([(await running).status, (await waiting).status]).toEqual([409, 409]);
    await expect.poll(() => there.aborted, { timeout: patienceMs }).toEqual(["hold 1"]);
    expect(await here.say("c", "new")).toEqual({ status: 200, text: "re new" });
    expect(here.asked.at(-1)).toEqual({ text: "new", before: [] });
    expect((await there.conversation("c")).texts).toEqual(["new", "re new"]);
    expect((await there.conversation("c", "DELETE")).status).toBe(200);
    expect((await here.conversation("c", "DELETE")).status).toBe(404);
  });

  it(
    `leaves a conversation whole or nothing of it when the replica that deletes it is killed, ${kills} times`,
    { timeout: 4 * patienceMs },
    async () => {
      const tally = { answered: 0, whole: 0, notBegun: 0 };
      for (let kill = 0; kill < kills; kill++) {
        const { replicas, waitForLine, waitForDeletions } = await startChatReplicas();
        const [victim, survivor] = replicas;
        for (const text of ["one", "two"]) expect((await survivor.say("c", text)).status).toBe(200);
        await waitForLine("c", 0);
        const removing = victim.conversation("c", "DELETE").then(
          ({ status }) => status,
          () => undefined, // it was killed
        );
        if (kill === kills - 1) expect(await removing).toBe(200);
        else if (kill % 2 === 1)
          await expect.poll(() => isGone(survivor), { timeout: patienceMs, interval: 1 }).toBe(true);
        else await sleep(Math.random() * 40);
        victim.send("SIGKILL");
        const status = await removing;
        await waitForDeletions();
        const after = await survivor.conversation("c");
        if (status === 200) expect(after.status).toBe(404);
        // A call that Restate has taken is repeated on the survivor: it is never left half-way.
        if (after.status === 200) expect(after.texts).toEqual(answered);
        tally[status === 200 ? "answered" : after.status === 200 ? "notBegun" : "whole"]++;
        const next = await survivor.say("c", "new");
        expect(next).toEqual({ status: 200, text: "re new" });
        const texts = (await survivor.conversation("c")).texts;
        expect([
          ["new", "re new"],
          [...answered, "new", "re new"],
        ]).toContainEqual(texts);
        if (after.status === 404) expect(texts).toEqual(["new", "re new"]);
      }
      console.log(`deletions: ${JSON.stringify(tally)}`);
    },
  );
});
