import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { describe, expect, it } from "vitest";
import { startTestServer } from "../../harness/server.ts";
import { agentOf, agents, provider, settings, show, watch } from "./provider-suite.ts";
import { apiKey } from "./troubles.ts";

describe("secrets", () => {
  it.for(["dev", "start"] as const)("describes an agent without its key in %s", async (target) => {
    const server = await startTestServer(target, { config: { agents } });
    const { text } = await server.get("/agents");
    const { text: detail } = await server.get("/agents/healthy");
    expect(text + detail).not.toContain(apiKey);
    expect(text).not.toContain("INSTRUCTIONS-9b2e");
    expect(detail.includes("INSTRUCTIONS-9b2e")).toBe(target === "dev");
  });

  it("does not log a key that is in the provider's URL", async () => {
    const byQuery = createOpenAICompatible({ ...settings, baseURL: provider.baseURL, queryParams: { key: apiKey } });
    const config = { agents: ["status-401", "page", "reset"].map((id) => agentOf(id, { model: byQuery(id) })) };
    const server = await startTestServer("start", { config });
    const ask = await watch(server);
    for (const { id } of config.agents) expect((await ask("text", id)).status).toBe(502);
    for (const { id } of config.agents) {
      const message = id === "status-401" ? "Model rejected the credentials" : "Model call failed";
      expect((await ask("stream", id)).text).toContain(message);
    }
    expect(server.logs.length).toBeGreaterThan(0);
    expect(show(server.logs)).not.toContain(apiKey);
    const [refused] = server.logs.map(({ data }) => data?.["error"]);
    expect(refused).toMatch(/^AI_APICallError: .+ \(status 401, http:\/\/[^?]+\)$/); // text for a person, not JSON
  });
});
