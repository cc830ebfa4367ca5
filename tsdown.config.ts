import { defineConfig, type UserConfig } from "tsdown";

const config: UserConfig = defineConfig({
  entry: {
    index: "src/index.ts",
    models: "src/models.ts",
    cli: "src/cli/main.ts",
    "schema-worker": "src/agents/schema-worker.ts", // a process of its own
  },
  platform: "node",
  target: "node22.22",
  dts: { oxc: true },
  fixedExtension: true,
});
export default config;
