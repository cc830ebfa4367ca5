import { expect, it } from "vitest";
import type { Config } from "agentserve";
import { workflows } from "./fixtures.ts";
import { describeStage } from "./stage.ts";

// To the browser, a page under any name of the server is the server's own: cross-origin rules do not hold it back.
const config = (friend: string): Config => ({
  workflows,
  server: { allowedHosts: ["allowed.test"], cors: { origin: friend } },
});

describeStage("the name that a page calls the server by", config, (stage) => {
  const isOpen = (name: string): boolean => stage.target === "start" || name !== "evil.test";

  it.each(["127.0.0.1", "app.localhost", "allowed.test", "evil.test"])(
    "serves a page under any name in start, in dev under addresses, localhost and allowedHosts: %s",
    async (name) => {
      const own = stage.server.replace("127.0.0.1", name);
      const tab = await stage.visit(`${own}/workflows`);
      expect(await tab.read("/workflows")).toMatchObject(
        isOpen(name)
          ? { type: "basic", status: 200, body: { success: true } }
          : { type: "basic", status: 403, body: { success: false, error: "Host not allowed" } },
      );
      expect(await tab.talk(`${own.replace("http", "ws")}/ws`)).toEqual(
        isOpen(name)
          ? { protocol: "", heard: [expect.anything(), { type: "ECHO", success: true, data: "hello" }] }
          : { refused: expect.stringContaining("Unexpected response code: 403") },
      );
    },
  );
});
