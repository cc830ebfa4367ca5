import { defineConfig, type UserConfig } from "tsdown";

const config: UserConfig = defineConfig({
  entry: {
    index: "src/index.ts",
    models: "src/models.ts",
    testing: "src/testing.ts",
    "backends/restate": "src/backends/restate/define.ts",
    cli: "src/cli/main.ts",
    "schema-worker": "src/agents/schemas/schema-worker.ts", // runs as a separate process
  },
  platform: "node",
  target: "node22.22",
  dts: { oxc: true },
  fixedExtension: true,
  copy: {
    from: ["swagger-ui-bundle.js", "swagger-ui.css", "swagger-ui-bundle.js.LICENSE.txt", "LICENSE", "NOTICE"].map(
      (name) => `node_modules/swagger-ui-dist/${name}`,
    ),
    to: "dist/swagger-ui",
  },
});
export default config;
