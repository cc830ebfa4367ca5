import { defineConfig, type UserConfig } from "tsdown";

const server: UserConfig = {
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
  // Only the export of spans brings its packages: they are loaded if OTEL_EXPORTER_OTLP_ENDPOINT is set.
  deps: { onlyBundle: [/^@opentelemetry\//] },
  inputOptions: { resolve: { mainFields: ["module", "main"] } },
  copy: [
    {
      from: ["swagger-ui-bundle.js", "swagger-ui.css", "swagger-ui-bundle.js.LICENSE.txt", "LICENSE", "NOTICE"].map(
        (name) => `node_modules/swagger-ui-dist/${name}`,
      ),
      to: "dist/swagger-ui",
    },
    { from: "node_modules/@opentelemetry/sdk-trace/LICENSE", to: "dist/opentelemetry" },
  ],
};

/** The page of the console, with everything that it needs. */
const page: UserConfig = {
  entry: { console: "src/console/page/main.tsx" },
  outDir: "dist/console",
  platform: "browser",
  target: "es2024",
  tsconfig: "src/console/page/tsconfig.json",
  minify: true,
  dts: false,
  deps: { alwaysBundle: [/.*/], onlyBundle: false },
  // The annotations are for bundlers: nobody bundles the page again.
  outputOptions: { entryFileNames: "console.js", comments: { annotation: false } },
  copy: { from: "src/console/page/console.css", to: "dist/console" },
};

const config: UserConfig[] = defineConfig([server, page]);
export default config;
