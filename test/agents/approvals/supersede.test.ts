import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { read } from "../turns/turn-server.ts";
import { ask, bankConfig, decide, list, paidTo, prompts, request } from "./bank.ts";

const idsOf = (items: any[]): string[] => items.map(({ approvalId }) => approvalId);

describeServer(
  "an approval that waits, when the conversation continues without it",
  { config: bankConfig(), only: ["in process"] },
  (server) => {
    it("a waiting approval is denied by a new message of the user, as superseded, and its tool never runs", async () => {
      const { to, id, conversationId } = await request(server, "5 7");
      const { body } = await ask(server, conversationId, `never mind ${to}`);
      expect(body.data).toMatchObject({ finishReason: "stop" });
      const [, answer] = await read(server, "bank", conversationId);
      const denied = { state: "output-denied", approval: { approved: false, reason: "superseded" } };
      expect(answer!.parts.filter(({ type }) => type === "tool-pay")).toMatchObject([denied, denied]);
      // The model is shown a call and its result.
      const shown = JSON.parse(prompts.find((prompt) => prompt.includes(`never mind ${to}`))!) as any[];
      const results = shown.flatMap(({ content }) => content).filter(({ type }) => type === "tool-result");
      expect(results.map(({ output }) => output)).toEqual([
        { type: "execution-denied", reason: "superseded" },
        { type: "execution-denied", reason: "superseded" },
      ]);
      expect(await decide(server, id)).toMatchObject({ status: 409, body: { error: "Already decided: superseded" } });
      expect(idsOf(await list(server, "?limit=200"))).not.toContain(id);
      expect(paidTo(to)).toEqual([]);
    });

    it("a waiting approval is superseded also if the other one of its answer was approved: neither runs", async () => {
      const { to, approvals, conversationId } = await request(server, "5 7");
      await decide(server, approvals[0].approvalId);
      await ask(server, conversationId, "never mind");
      const [, answer] = await read(server, "bank", conversationId);
      const states = answer!.parts.flatMap((part) => ("state" in part && "toolCallId" in part ? part.state : []));
      expect(states).toEqual(["output-denied", "output-denied"]);
      expect((await decide(server, approvals[1].approvalId)).body.error).toBe("Already decided: superseded");
      expect(paidTo(to)).toEqual([]);
    });

    it("a waiting approval has one outcome when it is decided while a new message comes", async () => {
      for (let round = 0; round < 5; round++) {
        const { to, id, conversationId } = await request(server);
        const [decided] = await Promise.all([decide(server, id), ask(server, conversationId, "never mind")]);
        const isApproved = decided.status === 200;
        if (!isApproved) expect(decided.body.error).toBe("Already decided: superseded");
        expect(paidTo(to)).toHaveLength(isApproved ? 1 : 0);
        const [, answer] = await read(server, "bank", conversationId);
        const part = answer!.parts.find(({ type }) => type === "tool-pay");
        expect(part).toMatchObject({ state: isApproved ? "output-available" : "output-denied" });
      }
    });

    it("a waiting approval is not found after its conversation was deleted: 404", async () => {
      const { to, id, conversationId } = await request(server);
      const path = `/agents/bank/conversations/${conversationId}`;
      expect((await server.send(path, { method: "DELETE" })).status).toBe(200);
      expect((await decide(server, id)).status).toBe(404);
      expect(idsOf(await list(server, "?limit=200"))).not.toContain(id);
      expect(paidTo(to)).toEqual([]);
    });

    it.each(["regenerated", "edited", "decided and edited"])(
      "an approval is not found after its message was %s: 404",
      async (how) => {
        const { to, id, conversationId } = await request(server);
        const isDecided = how.startsWith("decided");
        if (isDecided) expect((await decide(server, id)).status).toBe(200);
        const [question, answer] = await read(server, "bank", conversationId);
        const edited = { ...question!, parts: [{ type: "text", text: "hello" }] };
        const body =
          how !== "regenerated"
            ? { id: conversationId, messages: [edited] }
            : { id: conversationId, messages: [question], trigger: "regenerate-message", messageId: answer!.id };
        expect((await server.post("/agents/bank/chat", body)).status).toBe(200);
        expect((await decide(server, id)).status).toBe(404);
        const waiting = idsOf(await list(server, "?limit=200"));
        expect(waiting).not.toContain(id);
        const messages = await read(server, "bank", conversationId);
        expect(messages).toHaveLength(2);
        // The new answer asks again, by another id.
        const part: any = messages[1]!.parts.find(({ type }) => type === "tool-pay");
        if (how === "regenerated") expect(waiting).toContain(part.approval.id);
        expect(paidTo(to)).toHaveLength(isDecided ? 1 : 0);
      },
    );
  },
);
