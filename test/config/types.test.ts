import { describe, expectTypeOf, it } from "vitest";
import { defineAgent, defineConfig, defineWorkflow, type AgentDefinition, type Config } from "agentserve";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";

// Compiled by `tsc -p test`; what is marked @ts-expect-error must not compile.
const options = { instructions: "Help.", model: "openai/gpt" };
const createAgent = () => defineAgent({ id: "assistant", ...options });
const createWorkflow = () => defineWorkflow({ id: "approval" }).andThen({ id: "ask", execute: () => 1 });

describe("defineAgent", () => {
  it("keeps the id of an agent as a literal", () => {
    expectTypeOf(createAgent).returns.toEqualTypeOf<AgentDefinition<"assistant">>();
    expectTypeOf<AgentDefinition<"assistant">["id"]>().toEqualTypeOf<"assistant">();
    // @ts-expect-error the id is another one
    () => createAgent().id === "other";
  });

  it("takes an agent id that is known only at run time, and every agent is an AgentDefinition", () => {
    const create = (id: string) => defineAgent({ id, ...options });
    expectTypeOf(create).returns.toEqualTypeOf<AgentDefinition>();
    expectTypeOf<AgentDefinition<"assistant">>().toExtend<AgentDefinition>();
    expectTypeOf<AgentDefinition>().not.toExtend<AgentDefinition<"assistant">>();
  });
});

describe("defineConfig", () => {
  it("keeps the ids of a config's agents and workflows, in order", () => {
    const create = () => defineConfig({ agents: [createAgent()], workflows: [createWorkflow()] });
    expectTypeOf<ReturnType<typeof create>["agents"][0]["id"]>().toEqualTypeOf<"assistant">();
    expectTypeOf<ReturnType<typeof create>["workflows"][0]["id"]>().toEqualTypeOf<"approval">();
    expectTypeOf<ReturnType<typeof create>>().toExtend<Config>();
    expectTypeOf<ReturnType<typeof createWorkflow>>().toExtend<WorkflowDefinition>();
  });

  it("gives the callbacks of a config their types", () => {
    () =>
      defineConfig({
        configureApp: (app) => void app.get("/me", ({ context }) => context.authenticatedUser?.["id"]),
        server: { cors: { origin: (origin) => (origin === "https://a.example" ? origin : undefined) } },
      });
  });

  it("takes a config that is known only at run time", () => {
    expectTypeOf((config: Config) => defineConfig(config)).returns.toEqualTypeOf<Config>();
    () => defineConfig({ server: { cors: false, allowedHosts: ["a.example"], limits: { bodyBytes: 1 } } });
  });

  it("does not compile a config with a wrong value or an unknown key, nested ones too", () => {
    // @ts-expect-error a port is a number
    () => defineConfig({ server: { port: "80" } });
    // @ts-expect-error no such key
    () => defineConfig({ agents: [], workflow: [] });
    // @ts-expect-error no such key
    () => defineConfig({ server: { port: 80, prot: 80 } });
    // @ts-expect-error no such key
    () => defineConfig({ server: { limits: { bodyBytes: 1, bodyByte: 1 } } });
    // @ts-expect-error no such key
    () => defineConfig({ server: { cors: { origin: "*", origins: [] } } });
    // @ts-expect-error no such key
    () => defineConfig({ console: { readonly: true } });
    // @ts-expect-error true, false or options
    () => defineConfig({ console: "on" });
    () => [defineConfig({ console: true }), defineConfig({ console: { readOnly: true } })];
  });
});
