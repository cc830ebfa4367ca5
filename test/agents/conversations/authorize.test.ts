import { defineAgent } from "agentserve";
import { echoModel } from "agentserve/models";
import { expect, it } from "vitest";
import { by, trusting } from "../../auth/authorize/world.ts";
import { describeServer } from "../../harness/server.ts";
import { readAll, toApi } from "./api.ts";

const config = {
  agents: [defineAgent({ id: "helper", instructions: "x", model: echoModel() })],
  auth: trusting,
  authorize: ({ action, conversation }: { action: string; conversation?: { conversationId: string } | undefined }) =>
    action !== "conversation.read" || !conversation!.conversationId.startsWith("hidden"),
};

describeServer("conversations under authorize", { config, only: ["in process"] }, (server) => {
  it("lists all conversations that authorize allows in pages, each once, and no other", async () => {
    const api = toApi(server, { init: by("ada") });
    const ids = ["a", "hidden-1", "hidden-2", "b", "hidden-3", "c", "d", "e", "hidden-4"];
    for (const id of ids) expect((await api.say(id, "Hi")).status).toBe(200);
    const shown = ["e", "d", "c", "b", "a"];
    for (const limit of [1, 2, 3]) expect((await readAll(api, limit)).map(({ id }) => id)).toEqual(shown);
    expect((await api.read("hidden-1")).status).toBe(403);
  });
});
