import { defineConfig, type UserConfig } from "tsdown";

const config: UserConfig = defineConfig({
  entry: { index: "src/index.ts", cli: "src/cli/main.ts" },
  platform: "node",
  target: "node22.22",
  dts: { oxc: true },
  fixedExtension: true,
});
export default config;
