import { defineConfig, type ViteUserConfig } from "vitest/config";

const config: ViteUserConfig = defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    reporters: ["default", "./test/tally.ts"],
    testTimeout: 15_000,
  },
});
export default config;
