// Each of these changes makes a test of this file fail: usage of others under `ownership`, or of all for a caller without an id; a
// user that is named in the query and not checked; `authorize` that is not asked, or is not told whose usage is meant.
import type { AuthorizeRequest } from "agentserve";
import { beforeAll, describe, expect, it } from "vitest";
import { by, trusting } from "../../auth/authorize/world.ts";
import { describeServer, type TestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { meteredAgent, readUsage, toQuestion } from "./metered.ts";

const only = ["in process"] as const;
const publicRoutes = ["GET /agents/*", "POST /agents/*"];
const fill = async (server: TestServer): Promise<void> => {
  for (const user of ["ada", "bob", undefined, { name: "no id" }])
    await server.post("/agents/a/text", { input: toQuestion([1, 1]), options: { conversationId: "c" } }, by(user));
};
/** The users whose usage a caller reads, or the status. */
async function usersOf(server: TestServer, caller: string | object | undefined, query: object = {}) {
  const { status, body } = await readUsage(server, "a", { by: "user", ...query }, by(caller));
  return status === 200 ? body.data.items.map(({ userId, calls }: any) => `${userId} ${calls}`) : status;
}
const all = ["null 2", "ada 1", "bob 1"];

describeServer(
  "usage under ownership",
  { config: { agents: [meteredAgent("a")], auth: { ...trusting, ownership: true, publicRoutes } }, only },
  (server) => {
    beforeAll(() => fill(server));

    it("usage is the caller's own", async () => {
      await eventually(async () => expect(await usersOf(server, "ada")).toEqual(["ada 1"]));
      await eventually(async () => expect(await usersOf(server, "bob", { userId: "bob" })).toEqual(["bob 1"]));
      for (const grouping of ["day", "conversation"]) {
        const { body } = await readUsage(server, "a", { by: grouping }, by("ada"));
        expect(body.data.items).toMatchObject([{ calls: 1 }]);
      }
    });

    it("usage of another user is refused", async () => {
      expect(await readUsage(server, "a", { userId: "bob" }, by("ada"))).toMatchObject({
        status: 403,
        body: { success: false, error: "Forbidden" },
      });
      expect(await usersOf(server, undefined, { userId: "bob" })).toBe(403);
      expect(await usersOf(server, { name: "no id" }, { userId: "bob" })).toBe(403);
    });

    it("usage is empty for a caller without an id", async () => {
      for (const caller of [undefined, { name: "no id" }, "eve"]) expect(await usersOf(server, caller)).toEqual([]);
    });
  },
);

describeServer(
  "usage with a provider and without ownership",
  { config: { agents: [meteredAgent("a")], auth: trusting }, only },
  (server) => {
    it("usage is that of all users, for every caller with a token", async () => {
      for (const user of ["ada", "bob"])
        await server.post("/agents/a/text", { input: toQuestion([1, 1]), options: { userId: "eve" } }, by(user));
      await eventually(async () => expect(await usersOf(server, "ada")).toEqual(["ada 1", "bob 1"]));
      expect(await usersOf(server, "ada", { userId: "bob" })).toEqual(["bob 1"]);
      expect(await usersOf(server, undefined)).toBe(401);
    });
  },
);

describe("usage by authorize", () => {
  const asked: AuthorizeRequest[] = [];
  const authorize = (request: AuthorizeRequest): boolean => {
    if (request.action !== "usage.read") return true;
    asked.push(request);
    return request.usage!.isOwn || request.user?.["role"] === "admin";
  };
  const admin = { id: "root", role: "admin" };
  describe.each([
    ["of the config", { agents: [meteredAgent("a")], authorize }],
    ["of the agent", { agents: [meteredAgent("a", { authorize })] }],
  ])("%s", (_, more) => {
    const config = { auth: { ...trusting, ownership: true, publicRoutes }, ...more };
    describeServer("on a server", { config, only }, (server) => {
      beforeAll(() => fill(server));

      it("authorize decides who reads usage, instead of ownership", async () => {
        await eventually(async () => expect(await usersOf(server, admin)).toEqual(all));
        expect(await usersOf(server, admin, { userId: "bob" })).toEqual(["bob 1"]);
        expect(await usersOf(server, "ada", { userId: "ada" })).toEqual(["ada 1"]);
        for (const query of [{}, { userId: "bob" }]) expect(await usersOf(server, "ada", query)).toBe(403);
        expect(await usersOf(server, undefined)).toBe(403);
        expect(await usersOf(server, { role: "admin" })).toEqual(all);
      });

      it("tells authorize whose usage is read", async () => {
        const ask = async (caller: string, query: object): Promise<unknown> => {
          asked.length = 0;
          await usersOf(server, caller, query);
          expect(asked).toHaveLength(1);
          return JSON.parse(JSON.stringify(asked[0]));
        };
        const about = { action: "usage.read", agentId: "a", user: { id: "ada" } };
        expect(await ask("ada", {})).toEqual({ ...about, usage: { isOwn: false } });
        expect(await ask("ada", { userId: "bob" })).toEqual({ ...about, usage: { userId: "bob", isOwn: false } });
        expect(await ask("ada", { userId: "ada" })).toEqual({ ...about, usage: { userId: "ada", isOwn: true } });
      });

      it("does not ask authorize about the usage of an unknown agent", async () => {
        asked.length = 0;
        expect(await readUsage(server, "nobody", {}, by("ada"))).toMatchObject({ status: 404 });
        expect(asked).toEqual([]);
      });
    });
  });
});
