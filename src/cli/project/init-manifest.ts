import manifest from "../../../package.json" with { type: "json" };

const { version, engines, dependencies, devDependencies } = manifest;
/** The packages of a page, in addition to the packages of every project. */
const page = ["@ai-sdk/react", "react", "react-dom"] as const;
const pageTools = ["@types/react", "@types/react-dom", "vite"] as const;

/** Returns the package.json of a new project. With `hasPage`, Vite builds a page of React in it. */
export function toManifest(folder: string, hasPage: boolean): string {
  const project = {
    name: toPackageName(folder),
    private: true,
    type: "module",
    scripts: hasPage
      ? { dev: "vite", build: "vite build", start: "agentserve start", typecheck: "tsc" }
      : { dev: "agentserve dev", start: "agentserve start", typecheck: "tsc" },
    dependencies: {
      agentserve: `^${version}`,
      ai: "^7.0.0",
      valibot: `^${dependencies.valibot}`,
      ...(hasPage && toRanges(page)),
    },
    devDependencies: { ...toRanges(["@types/node", "typescript"]), ...(hasPage && toRanges(pageTools)) },
    // `@ai-sdk/react` pins a version of `ai`, and two copies must not be installed.
    ...(hasPage && { overrides: { ai: "$ai" } }),
    engines,
  };
  return `${JSON.stringify(project, null, 2)}\n`;
}

/** Returns the packages to install in a folder that has a package.json. */
export const toPackages = (hasPage: boolean): string[] => [
  "agentserve",
  "valibot",
  ...(hasPage ? ["ai", ...page, ...pageTools] : []),
];

const toRanges = (names: readonly (keyof typeof devDependencies)[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, `^${devDependencies[name]}`]));

/** Returns a valid npm package name that is close to the name of the folder. */
function toPackageName(folder: string): string {
  const name = folder
    .normalize("NFKD")
    .replace(/\p{M}/gu, "") // é becomes e
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+/, "")
    .slice(0, 200)
    .replace(/-+$/, "");
  // A package cannot depend on a package of the same name, and npm reserves two names.
  const taken = [...toPackages(true), "typescript", "node_modules", "favicon.ico"];
  return taken.includes(name) ? `${name}-app` : name || "my-app";
}
