import type { AuthorizeRequest } from "agentserve";
import { expect, it } from "vitest";
import { describeServer, type TestServer } from "../../harness/server.ts";
import { by, toPlain, trusting } from "../../auth/authorize/world.ts";
import { read } from "../turns/turn-server.ts";
import { bankConfig, createBank, decide, list, paidTo, request } from "./bank.ts";

const asked: AuthorizeRequest[] = [];
const config = bankConfig({
  auth: trusting,
  authorize(question) {
    if (question.action !== "approval.decide") return true;
    asked.push(question);
    const { isOwn, input } = question.approval!;
    // Four eyes: nobody approves an own payment of more than 10.
    if (question.user?.["id"] === "boss") return true;
    return isOwn && input !== undefined && input.amount <= 10;
  },
});
const idsOf = (items: any[]): string[] => items.map(({ approvalId }) => approvalId);
const chat = async (server: TestServer, conversationId: string, id: string, user: string) => {
  const [, answer] = await read(server, "bank", conversationId, user);
  const parts = answer!.parts.map((part: any) =>
    part.approval?.id === id ? { ...part, state: "approval-responded", approval: { id, approved: true } } : part,
  );
  return server.post("/agents/bank/chat", { id: conversationId, messages: [{ ...answer, parts }] }, by(user));
};

describeServer("authorize of an approval", { config, only: ["in process"] }, (server) => {
  it("refuses the requester of an approval with 403, in the list, the endpoint and a chat; and others with 404", async () => {
    const { to, id, conversationId } = await request(server, "50", by("ada"));
    expect(idsOf(await list(server, "?limit=200", by("ada")))).not.toContain(id);
    expect(await decide(server, id, { approved: true }, by("ada"))).toMatchObject({ status: 403 });
    expect(await chat(server, conversationId, id, "ada")).toMatchObject({ status: 403, body: { error: "Forbidden" } });
    expect(idsOf(await list(server, "?limit=200", by("bob")))).not.toContain(id);
    expect(await decide(server, id, { approved: true }, by("bob"))).toMatchObject({ status: 404 });
    expect((await decide(server, id)).status).toBe(401);
    expect((await server.get("/approvals")).status).toBe(401);
    expect(paidTo(to)).toEqual([]);
  });

  it("lets another user decide an approval: the tool runs for the requester, and knows who approved it", async () => {
    const options = { context: { tenant: "t" } };
    const { to, id, conversationId } = await request(server, "50", { ...by({ id: "ada", team: 1 }), options });
    expect(idsOf(await list(server, "?limit=200", by("boss")))).toContain(id);
    asked.length = 0;
    const boss = { id: "boss", name: "Grace" };
    const { status, body } = await decide(server, id, { approved: true }, by(boss));
    expect([status, body.data.text]).toEqual([200, "Done: paid 50"]);
    expect(paidTo(to)).toMatchObject([{ userId: "ada", approvedBy: boss, input: { amount: 50 } }]);
    expect(asked.map(toPlain)).toEqual([
      {
        action: "approval.decide",
        user: boss,
        agentId: "bank",
        approval: {
          approvalId: id,
          agentId: "bank",
          conversationId,
          userId: "ada",
          isOwn: false,
          toolName: "pay",
          input: { amount: 50, to },
          requestedAt: expect.stringMatching(/Z$/),
        },
      },
    ]);
    // Who has decided it is not shown to others, and a second decision is refused.
    expect((await decide(server, id, { approved: false }, by(boss))).body.error).toBe("Already decided: approved");
    expect((await decide(server, id, { approved: false }, by("bob"))).status).toBe(404);
  });

  it("lets the requester decide an approval where authorize says so", async () => {
    const { to, id } = await request(server, "5", by("ada"));
    expect(idsOf(await list(server, "?limit=200", by("ada")))).toContain(id);
    expect((await decide(server, id, { approved: true }, by("ada"))).status).toBe(200);
    const other = await request(server, "6", by("ada"));
    expect((await chat(server, other.conversationId, other.id, "ada")).status).toBe(200);
    expect([...paidTo(to), ...paidTo(other.to)].map(({ approvedBy }) => approvedBy)).toEqual([
      { id: "ada" },
      { id: "ada" },
    ]);
  });
});

const publicRoutes = ["POST /agents/*", "POST /approvals/*"];
const ownOnly = bankConfig({
  auth: { ...trusting, publicRoutes },
  authorize: ({ approval }) => approval?.isOwn ?? true,
});
describeServer("authorize that allows own approvals", { config: ownOnly, only: ["in process"] }, (server) => {
  it("does not tell authorize that a caller without an id owns an approval of one without an id", async () => {
    const { to, id } = await request(server, "5", by(undefined));
    expect((await decide(server, id)).status).toBe(404);
    expect(paidTo(to)).toEqual([]);
  });
});

const guarded = createBank({ id: "guarded", authorize: () => true });
const partly = { agents: [createBank(), guarded], auth: trusting };
describeServer("an agent without authorize beside one with it", { config: partly, only: ["in process"] }, (server) => {
  it("lets only the user of the conversation decide an approval", async () => {
    const { to, id } = await request(server, "5", by("ada"));
    expect((await decide(server, id, { approved: true }, by("bob"))).status).toBe(404);
    expect(paidTo(to)).toEqual([]);
    expect((await decide(server, id, { approved: true }, by("ada"))).status).toBe(200);
  });
});
