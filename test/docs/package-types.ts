import { globSync, readFileSync } from "node:fs";

/** The types of the package, as built. Those that several entry points share are in a file of their own. */
export const readPackageTypes = (): string =>
  globSync("dist/**/*.d.mts")
    .map((file) => readFileSync(file, "utf8"))
    .join("\n");
